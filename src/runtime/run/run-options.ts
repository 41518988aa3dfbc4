import { name } from '../../core/id.ts';
import { anything, callback, filledString, flag, oneOf, options, record, signal } from '../../core/options.ts';

const onDifference = oneOf('fail', 'warn', 'accept');

/** What every run of a team accepts; the memory is checked where it is used. */
export const RUN = {
  userId: name,
  ask: callback,
  signal,
  onText: callback,
  onMessage: callback,
  onCheckpoint: callback,
  memory: anything,
  metadata: record,
} as const;

/** What every continuation accepts besides. */
export const CONTINUATION = {
  ...RUN,
  onDifference,
  onDrift: onDifference,
  allowPartial: flag,
  overrides: options({ agents: record, settings: record }),
  branch: name,
  reason: filledString,
  mode: oneOf('live', 'recorded', 'frozen'),
  prompt: filledString,
  prepare: callback,
} as const;
