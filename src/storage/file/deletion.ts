import { StorageError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Deletion, Ref } from '../contract.ts';
import { Holders } from '../ref.ts';
import { refKey, type SessionLog } from './session-log.ts';
import type { Store } from './store.ts';

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
  const plans = await store.markers.exclusive(async () => {
    const planned = await planDeletions(store, deletions, force);
    for (const plan of planned) await writeDeletion(store, plan);
    return planned;
  });
  for (const { log } of plans) await store.markers.shared(() => store.sessions.eraseDeleted(log));
  return plans.flatMap((plan) => plan.deletions.map(({ id }) => id));
}

async function planDeletions(store: Store, deletions: readonly Deletion[], force: boolean): Promise<Plan[]> {
  const plans = new Map<SessionId, Plan>();
  const deleted = new Set<CheckpointId>();
  const holders = new Holders((log: SessionLog) => log.refs.values());
  for (const deletion of deletions) {
    const { id } = deletion;
    const found = deleted.has(id) ? undefined : await store.sessions.find(id);
    if (found === undefined || found.row.isDeleted) continue;
    const { log } = found;
    if (force) log.checkWhole();
    // In a damaged log an entry that is lost may hold a name that protects it.
    const released = log.damage === undefined ? holders.release(log, id, force) : undefined;
    if (released === undefined) continue;
    const plan = plans.get(log.sessionId) ?? { log, deletions: [], refs: [] };
    plans.set(log.sessionId, plan);
    plan.deletions.push(deletion);
    plan.refs.push(...[...released, ...logOf(log, id)].map(({ kind, name }) => ({ kind, name, target: null })));
    deleted.add(id);
  }
  return [...plans.values()];
}

type RemovedRef = Pick<Ref, 'kind' | 'name'> & { readonly target: null };
type Plan = { readonly log: SessionLog; readonly deletions: Deletion[]; readonly refs: RemovedRef[] };

/** The ref of what was filed under a checkpoint. */
function logOf({ refs }: SessionLog, id: CheckpointId): readonly Ref[] {
  const filed = refs.get(refKey({ kind: 'log', name: id }));
  return filed === undefined ? [] : [filed];
}

async function writeDeletion({ sessions }: Store, { log, deletions, refs }: Plan): Promise<void> {
  const isFirst = await sessions.append(log, { deletions, ...(refs.length > 0 && { refs }) });
  if (!isFirst)
    throw new StorageError(`Another process wrote to session "${log.sessionId}" during a deletion. Retry it.`);
}
