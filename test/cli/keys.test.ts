import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { encrypted } from '../../src/storage/encryption/encrypted.ts';
import { KeyFile } from '../../src/storage/encryption/key-file.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { json, ok, run } from './support/cli.ts';
import { CHAT, DATABASE, ROUNDS, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';

const chat = sharedChat();

/** A folder whose storage is the chat, encrypted. */
async function encryptedChat(more = ''): Promise<{ folder: string; keys: string }> {
  const { folder } = await chat.copy();
  writeFileSync(
    join(folder, 'savestate.yaml'),
    `storage: enc.db\nencryption: { keys: 'file:keys/agent.keys'${more} }\n`,
  );
  mkdirSync(join(folder, 'keys'));
  await ok(['key', 'add'], { folder });
  await ok(['copy', '--storage', DATABASE, '--to', 'enc.db'], { folder });
  return { folder, keys: join(folder, 'keys', 'agent.keys') };
}

describe('keys', () => {
  test('[encryption.6] a storage is encrypted by copy, and every command works on it', async () => {
    const { folder, keys } = await encryptedChat();
    expect(statSync(keys).mode & 0o777).toBe(0o600);
    const bytes = readFileSync(join(folder, 'enc.db'));
    for (const word of ['refund', CHAT, 'parcel']) expect(bytes.includes(word)).toBe(false);
    expect(await json('log', [], { folder })).toHaveLength(ROUNDS);
    expect(await ok(['grep', 'refund'], { folder })).toContain('refund');
    await ok(['fork', '@~2', '--branch', 'try'], { folder });
    await ok(['tag', 'good'], { folder });
    expect(await json('verify', ['--read-data'], { folder })).toMatchObject({ status: 'clean' });
    expect((await run(['log', '--storage', DATABASE], { folder })).stderr).toContain(
      'is not encrypted, and there are keys',
    );
    await ok(['copy', '--to', 'back.db', '--to-plain'], { folder });
    expect(readFileSync(join(folder, 'back.db')).includes('refund')).toBe(true);
  });

  test('[encryption.6] keys come from a file, a variable or a command, and are not shown', async () => {
    const { folder, keys } = await encryptedChat();
    const text = readFileSync(keys, 'utf8');
    const secret = /"secret": "(.*)"/.exec(text)?.[1] ?? '';
    writeFileSync(join(folder, 'savestate.yaml'), 'storage: enc.db\n');
    const none = await run(['log'], { folder });
    expect([none.code, none.stderr]).toEqual([18, expect.stringContaining('is encrypted. Say where its keys are')]);
    const sources = [
      { SAVESTATE_KEYS: text },
      { SAVESTATE_KEY_FILE: 'keys/agent.keys' },
      { SAVESTATE_KEY_COMMAND: 'cat keys/agent.keys' },
    ];
    for (const env of sources) {
      expect(await json('log', [], { folder, env })).toHaveLength(ROUNDS);
      const listed = await run(['key', 'list'], { folder, env });
      expect(listed.stdout).toMatch(/^k_[0-9a-f]{16}\tmain\t.*\twrites$/m);
      expect(listed.stdout + listed.stderr).not.toContain(secret);
    }
    writeFileSync(join(folder, 'savestate.yaml'), 'storage: enc.db\nencryption: { keys: env:MY_KEYS }\n');
    expect(await json('log', [], { folder, env: { MY_KEYS: text } })).toHaveLength(ROUNDS);
    for (const [env, said] of [
      [{}, 'takes the keys from the variable MY_KEYS, which is not set'],
      [{ SAVESTATE_KEYS: text, SAVESTATE_KEY_FILE: 'x' }, 'are both set'],
      [{ SAVESTATE_KEYS: `${secret} is no keyring` }, 'These are no keys'],
      [{ SAVESTATE_KEY_COMMAND: 'echo locked >&2; exit 3' }, 'SAVESTATE_KEY_COMMAND failed (3): locked'],
      [{ SAVESTATE_KEY_FILE: 'nowhere' }, 'There is no key file'],
    ] as const) {
      const { code, stderr } = await run(['log'], { folder, env });
      expect(code).not.toBe(0);
      expect(stderr).toContain(said);
      expect(stderr).not.toContain(secret);
    }
    expect((await run(['key', 'rotate'], { folder, env: { SAVESTATE_KEYS: text } })).stderr).toContain(
      'cannot be changed here',
    );
    chmodSync(keys, 0o644);
    expect((await run(['log'], { folder, env: { SAVESTATE_KEY_FILE: keys } })).stderr).toContain('chmod 600');
  });

  test('[encryption.6] a configuration cannot run a command', async () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'savestate.yaml'), "encryption: { keys: 'command:touch planted' }\n");
    expect((await run(['log'], { folder })).stderr).toContain('file:<path> or env:<variable>');
    expect(existsSync(join(folder, 'planted'))).toBe(false);
  });

  test('[encryption.6] rotate, re-encrypt by copy, and remove', async () => {
    const { folder } = await encryptedChat();
    const [first] = await json('key', ['list'], { folder });
    await ok(['key', 'rotate'], { folder });
    expect((await run(['key', 'add'], { folder })).stderr).toContain('savestate key rotate main');
    expect((await run(['key', 'rotate', 'nobody'], { folder })).code).toBe(13);
    await ok(['copy', '--to', 'fresh.db'], { folder });
    expect((await run(['key', 'remove', first?.id ?? ''], { folder })).code).not.toBe(0); // nobody can be asked
    await ok(['key', 'remove', first?.id ?? '', '--yes'], { folder });
    expect(await json('verify', ['--read-data', '--storage', 'fresh.db'], { folder })).toMatchObject({
      status: 'clean',
    });
    expect(await json('log', ['--storage', 'fresh.db'], { folder })).toHaveLength(ROUNDS);
    const gone = await run(['log', '-s', CHAT], { folder });
    expect([gone.code, gone.stderr]).toEqual([18, expect.stringContaining('was removed on')]);
  });

  test('[encryption.6] what an older key protects is counted with what newer saves share with it', async () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'savestate.yaml'), "storage: enc.db\nencryption: { keys: 'file:agent.keys' }\n");
    await ok(['key', 'add'], { folder });
    const [first] = await json('key', ['list'], { folder });
    const keys = new KeyFile(join(folder, 'agent.keys'));
    const storage = encrypted(new SqliteCheckpointStorage({ path: join(folder, 'enc.db') }), { keys });
    const manager = new CheckpointManager({ storage });
    const texts = Array.from({ length: 100 }, (_, n) => `line ${n} of a long text `.repeat(20));
    const old = await manager.save({ texts, n: 1 }, { sessionId: 'trip' });
    await keys.update((ring) => ring.add());
    await manager.save({ texts, n: 2 }, { sessionId: 'trip' });
    await manager.save({ n: 3 }, { sessionId: 'small' });
    await manager.delete(old);
    await manager.close();
    const planned = await ok(['key', 'remove', first?.id ?? '', '--dry-run'], { folder });
    expect(planned).toContain('that concerns 1 checkpoint of 1 session.');
    await ok(['key', 'remove', first?.id ?? '', '--yes'], { folder });
    expect((await run(['verify', '--read-data'], { folder })).stderr).toContain('"trip" was forgotten');
  });

  test('[encryption.6] with a key for each session, one is forgotten and the other stays', async () => {
    const { folder } = await encryptedChat(', keyPer: session');
    expect((await json('key', ['list'], { folder })).map(({ name }) => name).sort()).toEqual(['main', 'other', CHAT]);
    const planned = await ok(['key', 'remove', CHAT, '--dry-run'], { folder });
    expect(planned).toMatch(/that concerns \d+ checkpoints of 1 session\. Nothing was removed\.$/m);
    const all = `${/\d+ checkpoints/.exec(planned)?.[0]}`;
    expect(await json('log', ['-s', CHAT], { folder })).toHaveLength(ROUNDS);
    await ok(['key', 'remove', CHAT, '--yes'], { folder });
    expect((await run(['log', '-s', CHAT], { folder })).code).toBe(18);
    expect(await json('sessions', [], { folder })).toMatchObject([{ id: 'other' }]);
    expect((await run(['sessions'], { folder })).stderr).toBe(
      '1 session not shown: the key was removed. savestate verify names them.\n',
    );
    const verified = await run(['verify', '--read-data'], { folder });
    expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('1 session forgotten with its key')]);
    expect(verified.stderr).toContain(`Session "${CHAT}" was forgotten: a key was removed, and ${all} cannot`);
    expect(await json('log', ['-s', 'other'], { folder })).toHaveLength(1);
    const deleted = await ok(['forget', '--whole-session', CHAT, '--yes'], { folder });
    expect(deleted).toContain(`${all} deleted`);
    expect(await json('verify', ['--read-data'], { folder })).toMatchObject({ status: 'clean', sessions: 1 });
  });
});
