import { expect, test } from 'vitest';
import { runCommand } from './key-source.ts';

test('[encryption.6] a key command that takes too long is stopped, and that is said', async () => {
  const running = runCommand('echo waiting for a person >&2; sleep 60', 300);
  await expect(running).rejects.toThrow(
    'SAVESTATE_KEY_COMMAND was stopped: it gave no keys within 0.3 seconds. waiting for a person',
  );
  await expect(runCommand('exit 3')).rejects.toThrow('SAVESTATE_KEY_COMMAND failed (3): it said nothing');
  expect(await runCommand('echo keys')).toBe('keys\n');
});
