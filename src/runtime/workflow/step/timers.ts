import { MAX_DELAY_MS, sleep } from '../../../core/time/timer.ts';
import type { ManagerPorts } from '../../../manager/engine/engine.ts';
import type { Activity } from './activity.ts';
import { failed, OPEN, type Outcome } from './outcome.ts';
import type { RunRecord } from './run-record.ts';

/** What waiting needs. */
export type TimerParts = {
  readonly record: RunRecord;
  readonly activity: Activity;
  readonly ports: ManagerPorts;
  readonly signal: AbortSignal;
  /** `sleep`: the run lasts until the time has come. `return`: it ends as `waiting` when nothing else is left to do. */
  readonly timers: 'sleep' | 'return';
};

const POLL_MS = 500;

/** Waits for a time: a number of milliseconds since 1970, a date, or its text. It is saved before anything waits for it. */
export async function waitUntil(parts: TimerParts, path: string, time: unknown): Promise<Outcome> {
  const { record, activity, ports, signal, timers } = parts;
  const wantedMs = typeof time === 'number' ? time : Date.parse(time instanceof Date ? time.toISOString() : `${time}`);
  if (!Number.isFinite(wantedMs))
    return failed('InvalidInputError', `"${path}" cannot wait until ${JSON.stringify(time)}: that is not a time.`);
  const deadlineMs = record.timer(path) ?? (await activity.during(() => record.setTimer(path, wantedMs)));
  for (let leftMs = deadlineMs - ports.now(); leftMs > 0; leftMs = deadlineMs - ports.now()) {
    const napMs = Math.min(leftMs, MAX_DELAY_MS);
    if (timers === 'sleep') await activity.during(() => sleep(ports, napMs, signal));
    else if (await activity.rest(Math.min(napMs, POLL_MS))) return OPEN;
  }
  return { status: 'done', output: { atMs: deadlineMs } };
}
