import { expect, onTestFinished, test, vi } from 'vitest';
import { withRetries } from './retry.ts';

const STARTING = Object.assign(new Error('the server is starting'), { code: '57P03' });

test('[postgres.2] a call that worked for longer than it is tried again is tried again all the same', async () => {
  let nowMs = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => clock.mockRestore());
  let attempts = 0;
  const attempt = async () => {
    attempts++;
    nowMs += 60_000;
    if (attempts === 1) throw STARTING;
    return 'done';
  };
  expect(await withRetries(attempt, { forMs: 30_000, doubt: { exists: false } })).toBe('done');
  const failing = async () => {
    nowMs += 20_000;
    attempts++;
    throw STARTING;
  };
  attempts = 0;
  await expect(withRetries(failing, { forMs: 30_000, doubt: { exists: false } })).rejects.toBe(STARTING);
  expect(attempts).toBe(3);
});
