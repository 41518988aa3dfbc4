import { CorruptError, InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { AgentFactory } from '../agent/agent.ts';
import type { AgentSaving, PreparedRestore, RestoreOptions } from '../agent/agent-saving.ts';
import { captureAgent } from '../agent/capture-agent.ts';
import { type RestoreProblem, type RestoreReport, readState } from '../engine/loading.ts';
import { GROUP_TYPE } from '../engine/save-options.ts';

import {
  checkGroupState,
  forEachMember,
  type GroupState,
  type InFlightMessage,
  type MemberEntry,
  memberError,
  tellFailure,
} from './group-state.ts';

/** Where the states of a group's members go, by their names; what is not said is as with `restore`. */
export type RestoreGroupOptions = Pick<RestoreOptions, 'allowOther' | 'onDifference'> & {
  /** Live agents that take the states over. */
  readonly into?: { readonly [name: string]: object } | undefined;
  readonly factory?: { readonly [name: string]: AgentFactory } | undefined;
  /** Bring back just these members. Default: all. */
  readonly only?: readonly string[] | undefined;
};

/** A member that was brought back. */
export type RestoredMember = {
  /** The agent; or the state itself, if it was saved from plain data. */
  readonly agent: unknown;
  readonly state: unknown;
  readonly checkpoint: Checkpoint;
  readonly report: RestoreReport;
  /** How many messages it had sent and received by the cut. */
  readonly sent: { readonly [to: string]: number };
  readonly received: { readonly [from: string]: number };
  /** Messages that were under way to it: deliver them again, in this order, before anything else. */
  readonly inFlight: readonly InFlightMessage[];
};

/** A group that was brought back. */
export type RestoredGroup = {
  readonly checkpoint: Checkpoint;
  readonly members: ReadonlyMap<string, RestoredMember>;
};

type PreparedMember = PreparedRestore & {
  readonly name: string;
  readonly entry: MemberEntry;
  readonly isLive: boolean;
};

const UNCHANGED = 'The group was not restored, and no agent was changed.';

/**
 * Brings the members of a group checkpoint back, all of them or none. Reads and checks everything before it touches an agent; puts back
 * what it touched if one does not take its state.
 */
export async function restoreGroup(
  saving: AgentSaving,
  idOrPrefix: string,
  options: RestoreGroupOptions,
): Promise<RestoredGroup> {
  const stored = await saving.engine.repository.open(idOrPrefix);
  const { checkpoint } = stored;
  checkIsGroup(checkpoint);
  const state = checkGroupState(await readState(saving.engine, stored));
  const entries = selectMembers(state, options);
  const members = await forEachMember(UNCHANGED, entries, (entry) => prepare(saving, entry, options));
  const problems = await loadAll(saving, members);
  const restored = new Map<string, RestoredMember>();
  for (const member of members) {
    const { name, sent, received } = member.entry;
    const { restored: agent, report } = await saving.finish(member, problems.get(name) ?? []);
    const inFlight = state.inFlight.filter(({ to }) => to === name);
    const { checkpoint, loaded } = member;
    restored.set(name, { agent, state: loaded.state, checkpoint, report, sent, received, inFlight });
  }
  return { checkpoint, members: restored };
}

function checkIsGroup({ id, type }: Checkpoint): void {
  if (type === GROUP_TYPE) return;
  throw new InvalidInputError(`Checkpoint ${id} is not a group checkpoint but of type "${type}". Use restore.`, {
    details: { id, type },
  });
}

async function prepare(
  saving: AgentSaving,
  entry: MemberEntry,
  { into, factory, allowOther, onDifference }: RestoreGroupOptions,
): Promise<PreparedMember> {
  const stored = await saving.engine.repository.open(entry.checkpointId);
  if (stored.checkpoint.digest !== entry.digest)
    throw new CorruptError(`Checkpoint ${entry.checkpointId} is not the one that the group was saved with.`);
  const live = ownValue(into, entry.name);
  const options = { into: live, factory: ownValue(factory, entry.name), allowOther, onDifference };
  return { ...(await saving.prepare(stored, options)), name: entry.name, entry, isLive: live !== undefined };
}

/** Puts every state into its agent; if one does not take it, the live ones get back what they had. */
async function loadAll(
  saving: AgentSaving,
  members: readonly PreparedMember[],
): Promise<Map<string, readonly RestoreProblem[]>> {
  const undos = await forEachMember(UNCHANGED, members, async ({ name, agent, isLive }) => {
    // An agent that was made for this restore is thrown away with it.
    const undo = isLive && agent !== undefined ? captureAgent(agent, saving.engine.plainCodec) : undefined;
    return { name, undo };
  });
  const problems = new Map<string, readonly RestoreProblem[]>();
  for (const [at, member] of members.entries()) {
    const { name } = member;
    try {
      problems.set(name, await saving.load(member));
    } catch (error) {
      const changed = `The group was not restored (${tellFailure({ name, error })}), and agents are left changed.`;
      await forEachMember(changed, undos.slice(0, at + 1), async ({ undo }) => undo?.());
      throw memberError(UNCHANGED, [{ name, error }]);
    }
  }
  return problems;
}

/** The members that are asked for; throws if a name in the options is not one of the group's. */
function selectMembers({ members }: GroupState, { only, into = {}, factory = {} }: RestoreGroupOptions): MemberEntry[] {
  const names = members.map(({ name }) => name);
  const unknown = [...(only ?? []), ...Object.keys(into), ...Object.keys(factory)].filter((n) => !names.includes(n));
  if (unknown.length === 0) return members.filter(({ name }) => only?.includes(name) ?? true);
  throw new InvalidInputError(
    `The group has no member ${unknown.map((name) => `"${name}"`).join(', ')} (it has: ${names.join(', ')}).`,
    { details: { unknown, members: names } },
  );
}

function ownValue<Value>(values: { readonly [name: string]: Value } | undefined, name: string): Value | undefined {
  return values !== undefined && Object.hasOwn(values, name) ? values[name] : undefined;
}
