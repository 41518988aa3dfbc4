import { InvalidInputError } from '../../core/errors.ts';
import { fieldsOf } from '../../manager/revision/transcript.ts';
import type { OpenStorage } from '../base/open-storage.ts';

/** How runs that wait for somebody are marked: workflows, and teams. */
const WAITING = ['waiting', 'waiting_for_input'];
/** Those who wait for somebody are among the checkpoints that were saved last. */
const MAX_LOOKED_AT = 200;

/** Refuses answers that may be meant for another session than the one used last: several ask a question of that name. */
export async function refuseAmbiguous({ manager }: OpenStorage, last: string, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const asking = new Set<string>();
  for (const status of WAITING)
    for (const { id, sessionId } of (await manager.list({ status }, { limit: MAX_LOOKED_AT })).checkpoints) {
      const head = await manager.open({ sessionId, at: '@' }).catch(() => undefined); // not readable: not in the way
      if (head?.id === id && asks(await manager.load(id), ids)) asking.add(sessionId);
    }
  if (asking.size < 2) return;
  const names = [...asking].toSorted().join(', ');
  throw new InvalidInputError(
    `Several sessions wait for an answer to "${ids.join('", "')}": ${names}. The one used last is ${last}. Name the one you mean: --session ${last}.`,
    { details: { sessions: [...asking], requests: ids } },
  );
}

/** Whether a run asks one of these: a workflow, a fleet or a group chat. */
function asks(state: unknown, ids: readonly string[]): boolean {
  const { requests, fleet, chat } = fieldsOf(state);
  const open = [...Object.values(fieldsOf(requests)), ...Object.values(fieldsOf(fieldsOf(fleet).requests))]
    .concat(fieldsOf(chat).pendingInput ?? [])
    .map(fieldsOf);
  return open.some(({ id, answer }) => answer === undefined && ids.some((wanted) => wanted === id));
}
