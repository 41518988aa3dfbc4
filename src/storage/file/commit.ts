import { StorageError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Commit, CommitResult, Deletion } from '../contract.ts';
import { HeldSession } from '../held-session.ts';
import { Holders } from '../ref.ts';
import { checkRequirement, taken } from '../refusal.ts';
import type { LogContent } from './log-entry.ts';
import type { SessionLog } from './session-log.ts';
import { checkIsStore, type Store } from './store.ts';

// Each lost race means that another process got its commit through, so this many in a row means something is wrong.
const MAX_RACES = 1000;

/** Takes one commit, durably. Only inside a shared section, and one at a time of each session in a process. */
export async function commitDurably(store: Store, commit: Commit): Promise<CommitResult> {
  store.files.checkWritable();
  await checkIsStore(store);
  for (let races = 0; races < MAX_RACES; races++) {
    const log = await store.sessions.get(commit.sessionId);
    // The place behind what is checked now: whoever reads the log meanwhile may fold in what others wrote, and then it is taken.
    const number = log?.next ?? 1;
    const earlier = await checkCommit(store, log, commit);
    if (earlier !== undefined) return { status: 'duplicate', id: earlier };
    // Everything the entry refers to is durable before the entry exists; after a lost race it is there already.
    if (races === 0) await writeChunks(store, commit);
    if (await publish(store, { log, number }, commit)) return { status: 'stored' };
  }
  throw new StorageError(`Session "${commit.sessionId}" lost ${MAX_RACES} races against other processes. Retry later.`);
}

/** What a checkpoint refers to and does not bring is there, unless somebody deleted or replaced the files while they were in use. */
async function writeChunks({ chunks }: Store, { checkpoint, chunks: brought = [] }: Commit): Promise<void> {
  await chunks.write(brought);
  const own = new Set(brought.map(({ digest }) => digest));
  await chunks.checkSome((checkpoint?.root.refs ?? []).filter((digest) => !own.has(digest)));
}

/** Makes the checks of the contract; returns the checkpoint that an earlier commit with the same key stored. */
async function checkCommit(store: Store, log: SessionLog | undefined, commit: Commit) {
  const { sessions } = store;
  log?.checkWhole();
  const earlier = log?.findEarlier(commit);
  if (log !== undefined && earlier !== undefined) {
    await sessions.makeDurable(log);
    return earlier;
  }
  checkNew(store, log, commit);
  await checkRequired(store, log, commit);
  (log ?? new HeldSession(commit.sessionId)).checkExpectations(commit);
  return undefined;
}

/** Looks where the id may be without reading every session: ids are unique by their making. */
function checkNew({ sessions }: Store, log: SessionLog | undefined, { checkpoint }: Commit): void {
  const { id } = checkpoint?.header ?? {};
  if (id !== undefined && (log?.rows.has(id) === true || sessions.isKnown(id))) throw taken(id);
}

async function checkRequired({ sessions }: Store, log: SessionLog | undefined, commit: Commit): Promise<void> {
  for (const id of commit.requires ?? []) {
    // Nearly always the parent, in the log at hand; what that says is made durable before the entry is added to it.
    const own = log?.rows.get(id);
    const found = own?.isDeleted === false ? undefined : await sessions.find(id);
    checkRequirement(commit, id, found?.row ?? own);
    if (found !== undefined) await sessions.makeDurable(found.log);
  }
}

/** The log of a session that was checked, and the number of the entry after it. */
type Checked = { readonly log: SessionLog | undefined; readonly number: number };

/** Whether the commit's entry got its number; a commit without rows needs none. */
async function publish({ sessions }: Store, { log, number }: Checked, commit: Commit): Promise<boolean> {
  const { sessionId, checkpoint, effects = [], refs = [] } = commit;
  if (checkpoint === undefined && effects.length === 0 && refs.length === 0) return true;
  const content: LogContent = {
    ...(checkpoint && { checkpoint }),
    ...(effects.length > 0 && { effects }),
    ...(refs.length > 0 && { refs: refs.map(({ kind, name, target }) => ({ kind, name, target })) }),
  };
  return log === undefined ? sessions.create(sessionId, content) : sessions.append(log, content, number);
}

/**
 * Turns checkpoints into tombstones. The deletions of a session are one entry, and so happen as a whole; then the content goes
 * from the entries that held it, beside commits. If the power fails in between, the next collection finishes that.
 * In a damaged session everything may be protected, so nothing is deleted there; with `force` that is a CorruptError.
 */
export async function deleteDurably(
  store: Store,
  deletions: readonly Deletion[],
  force: boolean,
): Promise<CheckpointId[]> {
  const { markers, sessions } = store;
  const plans = await markers.exclusive(async () => {
    const planned = await planDeletions(store, deletions, force);
    for (const { log, content } of planned)
      if (!(await sessions.append(log, content, log.next)))
        throw new StorageError(`Another process wrote to session "${log.sessionId}" during a deletion. Retry it.`);
    return planned;
  });
  for (const { log } of plans) await markers.shared(() => sessions.eraseDeleted(log.sessionId));
  return plans.flatMap(({ content }) => content.deletions.map(({ id }) => id));
}

async function planDeletions({ sessions }: Store, deletions: readonly Deletion[], force: boolean): Promise<Plan[]> {
  const plans = new Map<SessionId, Plan>();
  const deleted = new Set<CheckpointId>();
  const holders = new Holders((log: SessionLog) => log.refs);
  for (const deletion of deletions) {
    const { id } = deletion;
    const found = deleted.has(id) ? undefined : await sessions.find(id);
    if (found === undefined || found.row.isDeleted) continue;
    const { log, content } = plans.get(found.log.sessionId) ?? { log: found.log, content: { deletions: [], refs: [] } };
    if (force) log.checkWhole();
    // In a damaged log an entry that is lost may hold a name that protects it.
    const released = log.damages.length === 0 ? holders.release(log, id, force) : undefined;
    if (released === undefined) continue;
    plans.set(log.sessionId, { log, content });
    content.deletions.push(deletion);
    content.refs.push(...released.map(({ kind, name }) => ({ kind, name, target: null })));
    deleted.add(id);
  }
  return [...plans.values()];
}

type Plan = {
  readonly log: SessionLog;
  readonly content: { [Key in 'deletions' | 'refs']: Required<LogContent>[Key][number][] };
};
