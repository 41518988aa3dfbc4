import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { openDatabase } from '../../src/storage/database/sqlite-driver.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { LATER } from '../support/later.ts';
import { postgresUrl } from '../support/postgres.ts';
import { json, ok, run } from './support/cli.ts';
import { CHAT, DATABASE, ROUNDS, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';

const chat = sharedChat();
const SCHEMA = 'test_shared';

/** Everything that matters of a storage: two that give the same hold the same. */
async function contentOf(folder: string, args: readonly string[] = []): Promise<unknown> {
  const { storage: _, storedBytes: __, kind: ___, saved: ____, ...stats } = await json('stats', args, { folder });
  const log = await json('log', ['--all', ...args], { folder });
  const state = await json('show', ['@', ...args], { folder });
  return {
    log,
    stats,
    state,
    branches: await json('branch', args, { folder }),
    text: await ok(['export', ...args], { folder }),
  };
}

describe('copy', () => {
  test('[cli.17] from SQLite to PostgreSQL and back everything is the same', async () => {
    const { folder } = await chat.copy();
    const tenant = randomUUID();
    const there = ['--storage', postgresUrl(), '--tenant', tenant, '--schema', SCHEMA];
    const first = await json('copy', ['--to', postgresUrl(), '--to-tenant', tenant, '--to-schema', SCHEMA], { folder });
    expect(first).toMatchObject({
      checkpoints: ROUNDS + 2,
      present: 0,
      sessions: [{ sessionId: 'other' }, { sessionId: CHAT, checkpoints: ROUNDS + 1 }],
    });
    const back = newFolder();
    await ok(['copy', ...there, '--to', 'sqlite:back.db'], { folder: back });
    const content = await contentOf(folder);
    expect(await contentOf(back, ['--storage', 'back.db'])).toEqual(content);
    expect(await contentOf(folder, there)).toEqual(content);
    expect(await json('verify', ['--read-data', ...there], { folder })).toMatchObject({
      status: 'clean',
      effects: ROUNDS,
    });
  });

  test('[cli.17] again it brings only what came since, tombstones and moved branches too', async () => {
    const { folder } = await chat.copy();
    await json('copy', ['--to', 'copy.db'], { folder });
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, DATABASE) }) });
    const session = await manager.session(CHAT);
    await session.save({ round: 9 });
    await session.step('late', () => 'done');
    await manager.close();
    expect(await json('copy', ['--to', 'copy.db'], { folder })).toMatchObject({ checkpoints: 1, present: ROUNDS + 2 });
    expect(await contentOf(folder, ['--storage', 'copy.db'])).toEqual(await contentOf(folder));
  });

  test('[cli.17] what was deleted there stays deleted, and what comes later is whole', async () => {
    const folder = newFolder();
    const open = () => new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'a.db') }) });
    const text = 'a long text that is stored once, and shared by all that hold it. '.repeat(200);
    const manager = open();
    const session = await manager.session('s');
    const first = await session.save({ text });
    await session.save({ short: true });
    await manager.close();
    const args = ['--storage', 'a.db', '--to', 'b.db'];
    await json('copy', args, { folder });
    await ok(['prune', '--storage', 'b.db', '--keep-last', '1', '--yes', '--gc'], { folder });
    const later = open();
    await (await later.session('s')).save({ text, again: true });
    await later.tag(first, 'old');
    await later.close();
    expect(await json('copy', args, { folder })).toMatchObject({ checkpoints: 1, present: 2 });
    expect(await json('verify', ['--storage', 'b.db', '--read-data'], { folder })).toMatchObject({
      status: 'clean',
      tombstones: 1,
    });
    expect(await json('show', ['@:text', '--storage', 'b.db'], { folder })).toMatchObject({ value: text });
    expect(await json('tag', ['--storage', 'b.db'], { folder })).toEqual([]);
  });

  test('[cli.17] a copy that was stopped goes on where it was', LATER, async () => {
    const folder = newFolder();
    const manager = new CheckpointManager({
      storage: new SqliteCheckpointStorage({ path: join(folder, 'long.db'), durability: 'process' }),
    });
    const session = await manager.session('long');
    const state = { rounds: [] as string[] };
    for (let round = 0; round < 1500; round++) {
      state.rounds.push(`round ${round}`);
      await session.save(state);
    }
    await manager.close();
    const args = ['copy', '--storage', 'long.db', '--to', 'copy.db'];
    const stopped = await run([...args, '--progress', 'always'], {
      folder,
      onOutput: (text, kill) => /\d+\/1500 checkpoints/.test(text) && kill('SIGINT'),
    });
    expect(stopped.code).toBe(130);
    const halfway = await json('sessions', ['--storage', 'copy.db'], { folder });
    expect(halfway).toEqual([]); // names come last
    const { checkpoints, present } = await json('copy', args.slice(1), { folder });
    expect(checkpoints + present).toBe(1500);
    expect(present).toBeGreaterThan(0);
    expect(await json('verify', ['--storage', 'copy.db', '--read-data'], { folder })).toMatchObject({
      status: 'clean',
      checkpoints: 1500,
    });
  });

  test('[cli.17] a branch that went on by itself there is left alone and told, and the others are copied', async () => {
    const { folder } = await chat.copy();
    await json('copy', ['--to', 'copy.db', '-s', CHAT], { folder });
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'copy.db') }) });
    const id = await (await manager.session(CHAT)).save({ elsewhere: true });
    await manager.close();
    const result = await json('copy', ['--to', 'copy.db'], { folder, code: 3 });
    expect(result.sessions.find(({ sessionId }) => sessionId === CHAT)?.problem).toContain(id);
    expect(result.sessions.find(({ sessionId }) => sessionId === 'other')).toMatchObject({ checkpoints: 1 });
    expect((await json('log', ['-s', CHAT, '--storage', 'copy.db', '-n', '1'], { folder }))[0]?.id).toBe(id);
    expect((await run(['copy'], { folder })).code).toBe(2);
    expect((await run(['copy', '--to', DATABASE], { folder })).code).toBe(2);
    expect((await run(['copy', '--to', 'x.db', '--storage', 'missing.db'], { folder })).code).toBe(10);
    expect((await run(['copy', '--to', 'x.db', '-s', 'nobody'], { folder })).code).toBe(13);
  });

  test('[backup.3] copy --follow goes on until SIGTERM, and ends in order', async () => {
    const { folder } = await chat.copy();
    const args = ['copy', '--to', 'copy.db', '--follow'];
    const { code, stdout } = await run(args, {
      folder,
      onOutput: (text, kill) => /copied/.test(text) && kill('SIGTERM'),
    });
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining(`${ROUNDS + 2} checkpoints`) });
    expect(await contentOf(folder, ['--storage', 'copy.db'])).toEqual(await contentOf(folder));
  });

  test(
    '[backup.1] [cli.17] a backup that was killed goes on, and what is restored from it is the same',
    LATER,
    async () => {
      const { folder } = await chat.copy();
      const args = ['backup', 'saved/', '--progress', 'always'];
      const killed = await run(args, { folder, onOutput: (text, kill) => /checkpoints/.test(text) && kill('SIGKILL') });
      expect(killed.code).not.toBe(0);
      const first = await json('backup', ['saved/'], { folder });
      expect(first).toMatchObject({ status: 'complete', to: `file:${join(folder, 'saved')}` });
      expect(first.checkpoints + first.present).toBe(ROUNDS + 2);
      expect(await json('backup', ['saved/'], { folder })).toMatchObject({ checkpoints: 0, chunks: 0 });
      expect(await ok(['restore-backup', 'saved/', '--storage', 'new.db'], { folder })).toContain('restored to');
      expect(await contentOf(folder, ['--storage', 'new.db'])).toEqual(await contentOf(folder));
      expect((await run(['backup', DATABASE], { folder })).code).toBe(2);
      expect((await run(['backup', 'http://127.0.0.1:1'], { folder })).code).toBe(15);
      expect((await run(['backup', 'x/', '-s', CHAT], { folder })).code).toBe(2);
      expect((await run(['restore-backup', 'nowhere/', '--storage', 'x.db'], { folder })).code).toBe(10);
    },
  );

  test('[backup.2] an encrypted storage is backed up without keys, and what was deleted goes with --mirror', async () => {
    const { folder } = await chat.copy();
    const env = { SAVESTATE_KEY_FILE: join(folder, 'keys') };
    await ok(['key', 'add'], { folder, env });
    await ok(['copy', '--to', 'sealed.db'], { folder, env });
    await ok(['backup', 'saved/', '--storage', 'sealed.db'], { folder });
    await ok(['forget', '--whole-session', 'other', '--yes', '--storage', 'sealed.db'], { folder, env });
    expect(await json('backup', ['saved/', '--mirror', '--storage', 'sealed.db'], { folder })).toMatchObject({
      status: 'complete',
      checkpoints: 0,
      deletedSessions: [expect.stringContaining('sealed.')],
    });
    await ok(['restore-backup', 'saved/', '--storage', 'new.db'], { folder });
    expect(await json('sessions', ['--storage', 'new.db'], { folder, env })).toMatchObject([{ id: CHAT }]);
    expect((await run(['sessions', '--storage', 'new.db'], { folder })).code).toBe(18);
    const [without, withKeys] = ['without.db', 'with.db'].map((to) => ['backup', to, '--storage', 'sealed.db']);
    expect(await ok(without ?? [], { folder })).toContain('could not be checked without the keys');
    expect(await ok(withKeys ?? [], { folder, env })).not.toContain('could not be checked');
  });

  test('[backup.1] a backup that was cut off is told by sessions and verify', async () => {
    const { folder } = await chat.copy();
    await ok(['backup', 'cut.db'], { folder });
    const database = openDatabase(join(folder, 'cut.db'));
    database.exec('DELETE FROM ref'); // which come last
    database.close();
    const { stdout, stderr } = await run(['sessions', '--storage', 'cut.db'], { folder });
    expect(`${stdout}${stderr}`).toMatch(/cannot be listed.*was cut off/);
    const verified = await run(['verify', '--storage', 'cut.db'], { folder });
    expect(verified).toMatchObject({ code: 4, stdout: expect.stringContaining('was cut off') });
  });

  test('[cli.17] what a backup is made as is said, and one in memory is refused', async () => {
    const { folder } = await chat.copy();
    expect(await ok(['backup', 'plain'], { folder })).toContain(`the SQLite file ${join(folder, 'plain')}`);
    expect(await ok(['backup', 'made/'], { folder })).toContain(`the folder ${join(folder, 'made')}`);
    const memory = [
      ['backup', 'memory:'],
      ['copy', '--to', 'memory:'],
      ['restore-backup', 'plain', '--storage', 'memory:'],
    ];
    for (const args of memory) expect(await run(args, { folder })).toMatchObject({ code: 2 });
  });
});
