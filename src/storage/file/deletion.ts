import { StorageError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { Deletion, Ref } from '../contract.ts';
import { isProtecting } from '../ref.ts';
import { type LogRow, refKey, type SessionLog } from './session-log.ts';
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
  for (const deletion of deletions) {
    const found = deleted.has(deletion.id) ? undefined : await store.sessions.find(deletion.id);
    if (found === undefined || found.row.isDeleted) continue;
    if (force) found.log.checkWhole();
    const released = releaseRefs(found.log, found.row, force);
    if (released === undefined) continue;
    const plan = plans.get(found.log.sessionId) ?? { log: found.log, deletions: [], refs: [] };
    plans.set(found.log.sessionId, plan);
    plan.deletions.push(deletion);
    plan.refs.push(...released);
    deleted.add(deletion.id);
  }
  return [...plans.values()];
}

type Plan = { readonly log: SessionLog; readonly deletions: Deletion[]; readonly refs: RemovedRef[] };
type RemovedRef = Pick<Ref, 'kind' | 'name'> & { readonly target: null };

/** The refs that go with a checkpoint; `undefined` if one of them protects it, or a damaged entry may hold one that does. */
function releaseRefs(log: SessionLog, row: LogRow, force: boolean): RemovedRef[] | undefined {
  if (log.damage !== undefined) return undefined;
  const holders = [...log.refs.values()].filter((ref) => ref.target === row.id);
  if (!force && holders.some((ref) => isProtecting(ref.kind))) return undefined;
  const filed = log.refs.get(refKey({ kind: 'log', name: row.id }));
  return [...holders, ...(filed === undefined ? [] : [filed])].map(({ kind, name }) => ({ kind, name, target: null }));
}

async function writeDeletion({ sessions }: Store, { log, deletions, refs }: Plan): Promise<void> {
  const isFirst = await sessions.append(log, { deletions, ...(refs.length > 0 && { refs }) });
  if (!isFirst)
    throw new StorageError(`Another process wrote to session "${log.sessionId}" during a deletion. Retry it.`);
}
