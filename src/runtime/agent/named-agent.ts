import { InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import * as is from '../../core/options.ts';
import { isRecord } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { type GivenId, givenId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { WholeCheckpointStorage } from '../../storage/whole/whole-storage.ts';

/** Anything with a name, or with an id that serves as one, and perhaps a way to hear of its changes. */
export type NamedAgent = object & (Named | (Named & { readonly [field: string]: unknown }));

type Named = { readonly name: string } | { readonly agentId: GivenId } | { readonly id: GivenId };

export const named = is.accepts(
  'an object with a name, an agentId or an id',
  (value) => isRecord(value) && typeof nameOf(value as NamedAgent) === 'string',
);

/** Gives an agent something that is not part of its state. */
export function give(agent: NamedAgent, field: 'agentId' | 'userId' | 'checkpointManager', value: unknown): void {
  const property = { value, configurable: true, writable: true, enumerable: false };
  if (Reflect.defineProperty(agent, field, property)) return;
  throw new InvalidInputError(
    `The agent "${nameOf(agent)}" is frozen, or has "${field}" read-only, so the orchestrator cannot set it. Pass an agent that can change, or set it yourself.`,
    { details: { agent: nameOf(agent), field } },
  );
}

export function isUnset(agent: NamedAgent, field: string): boolean {
  return (Reflect.get(agent, field) ?? undefined) === undefined;
}

export function sessionOf(agent: NamedAgent): string {
  return idOf(agent) ?? nameOf(agent);
}

export function nameOf(agent: NamedAgent): string {
  const { name }: { name?: unknown } = agent as object;
  return typeof name === 'string' ? name : (idOf(agent) as string);
}

export function idOf(agent: NamedAgent): string | undefined {
  const { agentId, id }: { agentId?: unknown; id?: unknown } = agent as object;
  const given = agentId ?? id;
  return givenId(given) === undefined ? String(given) : undefined;
}

const USER_PAGE = 200;

/** Where an agent was left: the head of its current branch. A storage of three methods lists those of a user only; throws if it cannot be found there. */
export async function findLatest(agent: NamedAgent, checkpoints: CheckpointManager): Promise<Checkpoint | undefined> {
  const sessionId = sessionOf(agent);
  const { storage } = checkpoints.engine;
  if (!(storage instanceof WholeCheckpointStorage)) {
    const current = await checkpoints.currentBranch(sessionId);
    const head = (await checkpoints.branches(sessionId)).find(({ branch }) => branch === current);
    return head && checkpoints.open(head.headId);
  }
  const latest = await checkpoints.latest({ sessionId }); // it keeps no current branch
  if (latest !== undefined || storage.findsSessions) return latest;
  const userId: GivenId | undefined = Reflect.get(agent, 'userId');
  if (userId === undefined)
    throw new UnsupportedError(
      `A storage of whole checkpoints (save, load, listByUser) cannot find session "${sessionId}" of agent "${nameOf(agent)}" without its user. Give the orchestrator a userId, or the storage a listBySession method.`,
      { details: { agent: nameOf(agent), sessionId } },
    );
  for (let offset = 0; ; offset += USER_PAGE) {
    const page = await checkpoints.listByUser(userId, { limit: USER_PAGE, offset });
    const found = page.find((checkpoint) => checkpoint.sessionId === sessionId);
    if (found !== undefined || page.length < USER_PAGE) return found;
  }
}
