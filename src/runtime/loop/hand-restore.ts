import { InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { readRecorded } from '../../manager/effect/recordings.ts';
import { ACCEPT_STEP } from '../../manager/retention/retention-protections.ts';
import type { Session } from '../../manager/session/session.ts';
import type { MadeCall } from '../run/work.ts';
import type { Job } from './state/agent-state.ts';
import type { Message } from './state/mailbox.ts';
import type { LiveAgent, TurnOutcome } from './turn/live-agent.ts';

/** What an agent is brought back to, and what it recorded since. */
export type Earlier = { readonly from: CheckpointId; readonly state: unknown; readonly recorded: readonly MadeCall[] };

/** Whether the session was rewound and nothing was saved since: what the agent did after its head is on another branch. */
export function isRewound({ head, branch }: Session): boolean {
  return head !== undefined && head.branch !== branch;
}

/** Reads what the agent is to be brought back to, by a checkpoint that the caller names, or by a rewind. */
export async function findRestore(
  manager: CheckpointManager,
  session: Session,
  restoreFrom: string | undefined,
): Promise<Earlier | undefined> {
  const rewound = isRewound(session) ? session.head?.id : undefined;
  const named = restoreFrom ?? rewound;
  if (named === undefined) return undefined;
  const checkpoint = await manager.open(named);
  const { id, sessionId } = checkpoint;
  if (sessionId !== session.id)
    throw new InvalidInputError(
      `The loop of session "${session.id}" was not opened: checkpoint ${id} (restoreFrom) is of session "${sessionId}".`,
    );
  const branches = await manager.branches(sessionId);
  return readEarlier(
    manager,
    checkpoint,
    branches.map(({ branch }) => branch),
  );
}

/** Reads the state of a checkpoint, and the calls that were made for messages and tasks after it, on these branches. */
export async function readEarlier(
  manager: CheckpointManager,
  checkpoint: Checkpoint,
  branches: readonly string[],
): Promise<Earlier> {
  const { id, sessionId } = checkpoint;
  const recorded: MadeCall[] = [];
  for (const branch of branches) {
    const effects = await readRecorded(manager.engine, { sessionId, branch, head: checkpoint });
    for (const { work, name, inputDigest, idempotencyKey, status, value, afterId } of effects) {
      const isSince = branch === checkpoint.branch || (afterId !== undefined && afterId >= id);
      if (work === undefined || !isSince) continue;
      const isOver = status === 'done';
      recorded.push({ work, name, digest: inputDigest ?? null, key: idempotencyKey, isOver, result: value });
    }
  }
  return { from: id, state: await manager.load(id), recorded };
}

/**
 * Takes an agent whose session was rewound up where it was left: at the end of the branch that was written last, with what was
 * recorded after it. So no message that was accepted there is lost, and none is handled twice.
 */
export async function takeUpElsewhere(manager: CheckpointManager, session: Session, live: LiveAgent): Promise<void> {
  const left = await findLeft(manager, session);
  live.load(left.state);
  for (const { name, work, status, value } of left.recorded) {
    if (work !== undefined || status !== 'done' || value === null) continue;
    if (name === ACCEPT_STEP) live.mailbox.add(value as Message);
    else if (/^turn \d+: choose$/.test(name)) live.start(value as Job);
    else if (/^turn \d+$/.test(name)) live.settle(value as TurnOutcome);
  }
  setInterruptedAside(live, manager.engine.ports.now());
}

/** What is stored of the agent elsewhere; if there is no other branch any more, that is what it was rewound to. */
async function findLeft(manager: CheckpointManager, { id, branch, head, state }: Session) {
  const others = (await manager.branches(id)).filter((other) => other.branch !== branch);
  const last = others.toSorted((a, b) => (a.headId < b.headId ? 1 : -1))[0];
  if (last === undefined)
    return { state, recorded: await readRecorded(manager.engine, { sessionId: id, branch, head }) };
  const checkpoint = await manager.open(last.headId);
  const place = { sessionId: id, branch: last.branch, head: checkpoint };
  return { state: await manager.load(last.headId), recorded: await readRecorded(manager.engine, place) };
}

/** Nobody knows how far the turn under way came, so a message that may be handled once is not handled again. */
function setInterruptedAside(live: LiveAgent, atMs: number): void {
  const job = live.current?.job;
  if (job?.kind !== 'message' || live.mailbox.findPending(job.messageId)?.delivery !== 'at-most-once') return;
  const error = { name: 'Interrupted', message: 'The agent was rewound while this was done.' };
  live.settle({ turn: live.nextTurn, job, atMs, status: 'failed', error, isFinal: true });
}
