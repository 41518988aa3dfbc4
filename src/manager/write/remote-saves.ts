import { UnsupportedError } from '../../core/errors.ts';
import { keepRecent } from '../../core/keep-recent.ts';
import { checkValue, oneOf } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointRow } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import type { EventHandler, EventName } from '../engine/events.ts';
import { parseRow } from '../engine/records.ts';
import { REPORT_TYPE } from '../engine/save-options.ts';

/** Own saves come twice, from the save and from the storage, in either order; so the last ones told are remembered. */
const MAX_REMEMBERED = 10_000;

/** How to stop being told. `ready` resolves when everything from then on is told, or rejects if it cannot be. */
export type Subscription = (() => void) & { readonly ready: Promise<void> };

/** Tells a handler of what any process saves: each checkpoint once, after it is durable. It has a watch of its own, which ends with it. */
export function watchSaves(
  { storage, events }: Engine,
  { event, handler }: { readonly event: EventName; readonly handler: EventHandler<'checkpoint_saved'> },
  options: { readonly await?: boolean | undefined },
): Subscription {
  checkValue(event, oneOf('checkpoint_saved'), "The event of on() with { from: 'everywhere' }");
  if (storage.watch === undefined) {
    throw new UnsupportedError(
      `The ${storage.kind} storage cannot tell what other processes save. Use PostgreSQL, or leave out { from: 'everywhere' }.`,
    );
  }
  const told = new Map<string, true>();
  let isStopped = false; // the storage may tell of what it had read by then
  const tell = (checkpoint: Checkpoint) =>
    !isStopped && keepRecent(told, [checkpoint.id, true], MAX_REMEMBERED) ? handler(checkpoint) : undefined;
  const tellRow = (row: CheckpointRow) => {
    const checkpoint = parseRow(row);
    // What members of a group tell each other during a cut is nobody's save.
    return checkpoint.type === REPORT_TYPE ? undefined : tell(checkpoint);
  };
  const report = (error: unknown) => events.report(error, 'checkpoint_saved');
  const stopLocal = events.on('checkpoint_saved', tell, options);
  let last = Promise.resolve();
  const watching = storage.watch({
    // One after the other, in the order of the storage. A handler that fails, and a damaged row, break nothing.
    onCheckpoints: (rows) => {
      for (const row of rows) last = last.then(() => tellRow(row)).then(() => undefined, report);
    },
    onError: report,
  });
  const stop = () => {
    isStopped = true;
    stopLocal();
    watching.then((watch) => watch.close()).catch(report);
  };
  return Object.assign(stop, { ready: watching.then(() => undefined) });
}
