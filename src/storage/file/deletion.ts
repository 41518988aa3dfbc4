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
  for (const deletion of deletions) {
    const found = deleted.has(deletion.id) ? undefined : await store.sessions.find(deletion.id);
    if (found === undefined || found.row.isDeleted) continue;
    if (force) found.log.checkWhole();
    const { log } = found;
    if (log.damage !== undefined) continue; // what is lost may protect it
    const plan = plans.get(log.sessionId) ?? createPlan(log);
    plans.set(log.sessionId, plan);
    const released = plan.holders.release(deletion.id, force);
    if (released === undefined) continue;
    const filed = log.refs.get(refKey({ kind: 'log', name: deletion.id }));
    for (const { kind, name } of filed === undefined ? released : [...released, filed])
      plan.refs.push({ kind, name, target: null });
    plan.deletions.push(deletion);
    deleted.add(deletion.id);
  }
  return [...plans.values()].filter((plan) => plan.deletions.length > 0);
}

type Plan = {
  readonly log: SessionLog;
  readonly holders: Holders;
  readonly deletions: Deletion[];
  readonly refs: (Pick<Ref, 'kind' | 'name'> & { readonly target: null })[];
};

const createPlan = (log: SessionLog): Plan => ({
  log,
  holders: new Holders(log.refs.values()),
  deletions: [],
  refs: [],
});

async function writeDeletion({ sessions }: Store, { log, deletions, refs }: Plan): Promise<void> {
  const isFirst = await sessions.append(log, { deletions, ...(refs.length > 0 && { refs }) });
  if (!isFirst)
    throw new StorageError(`Another process wrote to session "${log.sessionId}" during a deletion. Retry it.`);
}
