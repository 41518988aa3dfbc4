import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { encrypted } from '../../src/storage/encryption/encrypted.ts';
import { KeyFile } from '../../src/storage/encryption/key-file.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { BUILT } from '../support/built.ts';
import { cleanEnv, ok } from './support/cli.ts';
import { newFolder } from './support/folder.ts';

/** Runs the command line; ends itself, as a kill would, after so many writes to the storage. */
const CHILD = `
  import { SqliteCheckpointStorage } from '${pathToFileURL(BUILT)}/index.js';
  const [count, ...args] = process.argv.slice(1);
  let left = Number(count);
  for (const name of ['commit', 'deleteSession', 'deleteCheckpoints', 'collect']) {
    const write = SqliteCheckpointStorage.prototype[name];
    SqliteCheckpointStorage.prototype[name] = async function (...given) {
      const result = await write.apply(this, given);
      if (--left === 0) process.kill(process.pid, 'SIGKILL');
      return result;
    };
  }
  process.argv.splice(1, process.argv.length, '${BUILT}/cli/main.js', ...args);
  await import('${pathToFileURL(BUILT)}/cli/main.js');`;

const SECRET = 'leaked-4711';
const SAVES = 2;

async function makeChat() {
  const folder = newFolder();
  const keys = new KeyFile(join(folder, 'keys'));
  await keys.create();
  /** Nobody waits for a dead process: timers are over at once. */
  const setTimer = (run: () => void) => {
    setImmediate(run);
    return () => undefined;
  };
  const open = () => {
    const storage = new SqliteCheckpointStorage({ path: join(folder, 'a.db'), durability: 'process' });
    return new CheckpointManager({ storage: encrypted(storage, { keys }), setTimer });
  };
  const manager = open();
  const session = await manager.session('chat');
  for (let i = 0; i < SAVES; i++) await session.save({ said: `diagnosis of patient ${i}: ${SECRET}` });
  await manager.close();
  return { folder, open };
}

async function redactKilledAfter(folder: string, writes: number): Promise<number | null> {
  const args = ['redact', '--env', 'LEAK', '-s', 'chat', '--yes', '--storage', 'a.db'];
  const env = cleanEnv(folder, { LEAK: SECRET, SAVESTATE_KEY_FILE: join(folder, 'keys') });
  const child = spawn(process.execPath, ['--input-type=module', '-e', CHILD, String(writes), ...args], {
    cwd: folder,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [code] = (await once(child, 'exit')) as [number | null];
  return code;
}

/** Files of the folder that hold a text in the clear. */
function filesWith(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const path = join(folder, name);
    return existsSync(path) && statSync(path).isFile() && readFileSync(path).includes(text);
  });
}

test('[cli.16] a redact that is killed at any write leaves the session as it was, or whole without the text', async () => {
  const states = new Set<string>();
  let gaps = 0;
  for (let writes = 1; ; writes++) {
    const { folder, open } = await makeChat();
    const code = await redactKilledAfter(folder, writes);
    expect([writes, filesWith(folder, 'diagnosis')]).toEqual([writes, []]);
    const manager = open();
    if ((await manager.engine.storage.readRefs({ sessionId: 'chat' })).length === 0) {
      const env = { SAVESTATE_KEY_FILE: 'keys' };
      expect(await ok(['log', '--oneline', '--storage', 'a.db'], { folder, env })).toMatch(/^(\S+.*\n){2}$/);
      gaps++;
    }
    const { state } = await manager.session('chat');
    const { said } = state as { said: string };
    states.add(said);
    const { checkpoints } = await manager.list({});
    const found = [
      said.startsWith('diagnosis of patient 1'),
      checkpoints.length,
      (await manager.verify({ readData: true })).status,
    ];
    expect([writes, ...found]).toEqual([writes, true, SAVES, 'clean']);
    await manager.close();
    if (code === 0) break;
    expect(writes).toBeLessThan(50);
  }
  expect(gaps).toBe(1);
  expect([...states]).toEqual([`diagnosis of patient 1: ${SECRET}`, 'diagnosis of patient 1: [redacted]']);
});
