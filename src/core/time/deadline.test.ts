import { expect, test } from 'vitest';
import { withDeadline } from './deadline.ts';

const late = new Error('too late');

/** Work that ends with an error of its own as soon as it is told to. */
const heeding = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(new Error('its own')));
  });

test('[model.7] what is thrown is that the time is over, and not how the work took it', async () => {
  await expect(withDeadline({ signal: undefined, timeoutMs: 1, onTimeout: () => late }, heeding)).rejects.toBe(late);
});

test('[model.7] what ends in time is as it ended, however long it may take', async () => {
  const deadline = { signal: undefined, timeoutMs: Number.POSITIVE_INFINITY, onTimeout: () => late };
  expect(await withDeadline(deadline, async () => 'done')).toBe('done');
  const error = new Error('failed');
  await expect(withDeadline(deadline, () => Promise.reject(error))).rejects.toBe(error);
});

test('[model.5] nothing is begun under a signal that is aborted', async () => {
  let isBegun = false;
  const begin = async () => {
    isBegun = true;
  };
  const signal = AbortSignal.abort(late);
  await expect(withDeadline({ signal, timeoutMs: 1000, onTimeout: () => late }, begin)).rejects.toBe(late);
  expect(isBegun).toBe(false);
});
