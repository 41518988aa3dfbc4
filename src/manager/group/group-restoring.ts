import { CorruptError, InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { AgentFactory } from '../agent/agent.ts';
import type { AgentSaving, PreparedRestore, RestoreOptions } from '../agent/agent-saving.ts';
import { captureAgent } from '../agent/agent-undo.ts';
import type { Engine } from '../engine/engine.ts';
import { readState } from '../engine/loading.ts';
import type { RestoreProblem, RestoreReport } from '../engine/restore-report.ts';
import { forEachMember, memberError, tellFailure } from './each-member.ts';
import { checkGroupState, checkIsGroup, type GroupState, type MemberEntry } from './group-state.ts';
import type { InFlightMessage } from './in-flight.ts';

/** Where the states of a group's members go, by their names; what is not said is as with `restore`. */
export type RestoreGroupOptions = {
  /** Live agents that take the states over. */
  readonly into?: { readonly [name: string]: object } | undefined;
  readonly factory?: { readonly [name: string]: AgentFactory } | undefined;
  /** As with `restore`. */
  readonly allowOther?: boolean | undefined;
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

/** Brings the members of a group checkpoint back, all of them or none. */
export class GroupRestoring {
  readonly #engine: Engine;
  readonly #saving: AgentSaving;

  constructor(engine: Engine, saving: AgentSaving) {
    this.#engine = engine;
    this.#saving = saving;
  }

  /** Reads and checks everything before it touches an agent; puts back what it touched if one does not take its state. */
  async restore(idOrPrefix: string, options: RestoreGroupOptions): Promise<RestoredGroup> {
    const stored = await this.#engine.repository.open(idOrPrefix);
    checkIsGroup(stored.checkpoint);
    const state = checkGroupState(await readState(this.#engine, stored));
    const entries = selectMembers(state, options);
    const members = await forEachMember(UNCHANGED, entries, (entry) => this.#prepare(entry, options));
    const problems = await this.#loadAll(members);
    const restored = new Map<string, RestoredMember>();
    for (const member of members) {
      const { name, checkpoint, loaded, entry } = member;
      const { restored: agent, report } = await this.#saving.finish(member, problems.get(name) ?? []);
      const { sent, received } = entry;
      const inFlight = state.inFlight.filter(({ to }) => to === name);
      restored.set(name, { agent, state: loaded.state, checkpoint, report, sent, received, inFlight });
    }
    return { checkpoint: stored.checkpoint, members: restored };
  }

  async #prepare(entry: MemberEntry, { into, factory, allowOther }: RestoreGroupOptions): Promise<PreparedMember> {
    const stored = await this.#engine.repository.open(entry.checkpointId);
    if (stored.checkpoint.digest !== entry.digest)
      throw new CorruptError(`Checkpoint ${entry.checkpointId} is not the one that the group was saved with.`);
    const live = ownValue(into, entry.name);
    const make = ownValue(factory, entry.name);
    const options: RestoreOptions = {
      ...(live !== undefined && { into: live }),
      ...(make !== undefined && { factory: make }),
      ...(allowOther !== undefined && { allowOther }),
    };
    const prepared = await this.#saving.prepare(stored, options);
    return { ...prepared, name: entry.name, entry, isLive: live !== undefined };
  }

  /** Puts every state into its agent; if one does not take it, the live ones get back what they had. */
  async #loadAll(members: readonly PreparedMember[]): Promise<Map<string, readonly RestoreProblem[]>> {
    const undos = await forEachMember(UNCHANGED, members, async ({ agent, isLive }) =>
      isLive && agent !== undefined ? captureAgent(agent, this.#engine.plainCodec) : doNothing,
    );
    const problems = new Map<string, readonly RestoreProblem[]>();
    for (const [at, member] of members.entries()) {
      const { name } = member;
      try {
        problems.set(name, await this.#saving.load(member));
      } catch (error) {
        const touched = undos.slice(0, at + 1).map((undo, nth) => ({ name: members[nth]?.name ?? '', undo }));
        const changed = `The group was not restored (${tellFailure({ name, error })}), and agents are left changed.`;
        await forEachMember(changed, touched, ({ undo }) => undo());
        throw memberError(UNCHANGED, [{ name, error }]);
      }
    }
    return problems;
  }
}

async function doNothing(): Promise<void> {
  // An agent that was made for this restore is thrown away with it.
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
