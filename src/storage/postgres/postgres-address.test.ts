import { expect, test } from 'vitest';
import { PostgresCheckpointStorage } from './postgres-storage.ts';

/** Longer than an address that never answered is tried, and shorter than a lost connection is. */
const SOON_MS = 20_000;

test('[postgres.2] an address that never answered is not tried for as long as a lost connection', {
  timeout: SOON_MS,
}, async () => {
  const storage = new PostgresCheckpointStorage({ connectionString: 'postgres://u:secret@127.0.0.1:1/app' });
  const error: unknown = await storage.stats().catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'STORAGE', message: expect.stringContaining('127.0.0.1:1') });
  expect(String(error)).not.toContain('secret');
  await storage.close();
});
