import { execFileSync } from 'node:child_process';
import { existsSync, lstatSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CommandInput } from '../../src/cli/base/command-input.ts';
import { Context } from '../../src/cli/base/context.ts';
import { command } from '../../src/cli/commands/keep/verify.ts';
import { PROGRAM } from '../../src/cli/program.ts';
import { createTerminal } from '../../src/cli/terminal/terminal.ts';
import { readNotes, setNote } from '../../src/manager/branch/notes.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { LATER } from '../support/later.ts';
import { json, ok, run } from './support/cli.ts';
import { CHAT, DATABASE, ROUNDS, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';

const chat = sharedChat();

describe.concurrent('verify', () => {
  test('[cli.13] checks a storage or an exported file', async () => {
    const { folder } = await chat.copy();
    expect(await json('verify', [], { folder })).toMatchObject({
      status: 'clean',
      checkpoints: ROUNDS + 2,
      hasReadData: false,
      findings: [],
    });
    const whole = await json('verify', ['--read-data'], { folder });
    expect(whole).toMatchObject({ status: 'clean', hasReadData: true, effects: ROUNDS });
    expect(whole.chunks).toBeGreaterThan(0);
    await ok(['export', '-o', 'chat.jsonl'], { folder });
    expect(await json('verify', ['chat.jsonl'], { folder })).toMatchObject({
      status: 'clean',
      checkpoints: ROUNDS + 1,
    });
    writeFileSync(
      join(folder, 'chat.jsonl'),
      readFileSync(join(folder, 'chat.jsonl'), 'utf8').replace('refund', 'refunb'),
    );
    expect((await run(['verify', 'chat.jsonl'], { folder })).code).toBe(4);
    expect((await run(['verify', 'missing.jsonl'], { folder })).code).toBe(13);
  });

  test('[cli.13] Ctrl-C stops it while chunks are read, before any checkpoint is', async () => {
    const folder = newFolder();
    const made = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'empty.db') }) });
    await made.list();
    await made.close();
    const globals = {
      storage: 'empty.db',
      json: true,
      color: false,
      pager: false,
      quiet: true,
      yes: true,
      input: false,
    };
    const context = new Context({
      program: PROGRAM,
      terminal: createTerminal(process, { color: false }),
      globals: { ...globals, progress: 'never' },
      env: {},
      folder,
      signal: AbortSignal.abort(),
    });
    await expect(command.run(context, new CommandInput([], { readData: true }))).rejects.toThrow(/abort/);
  });

  test('[cli.13] names what is damaged, and exits with 4', async () => {
    const { folder } = await chat.copy();
    const path = join(folder, DATABASE);
    const bytes = readFileSync(path);
    const at = bytes.indexOf('I want a refund');
    bytes[at] = (bytes[at] ?? 0) ^ 1;
    writeFileSync(path, bytes);
    const report = await json('verify', ['--read-data'], { folder, code: 4 });
    expect(report.status).toBe('damaged');
    expect(report.findings.length).toBeGreaterThan(0);
    expect(report.damagedCheckpoints.length).toBeGreaterThan(0);
    const text = await run(['verify', '--read-data'], { folder });
    expect(text.stdout).toMatch(/^damaged: \d+ finding/);
  });
});

describe.concurrent('prune', () => {
  test('[cli.14] shows what each rule keeps and drops, and deletes just that', async () => {
    const { folder, ids, forkId } = await chat.copy();
    const preview = await json('prune', ['--keep-last', '2', '--dry-run'], { folder });
    expect(preview).toMatchObject({ isDryRun: true, kept: 4, dropped: 6, deleted: [] });
    const text = await ok(['prune', '--keep-last', '2', '--dry-run'], { folder });
    expect(text).toContain('drop  auto: no keep rule asks for it');
    expect(text).toContain('keep  tagged v1');
    const done = await json('prune', ['--keep-last', '2', '--yes', '--gc'], { folder });
    expect(done).toMatchObject({ isDryRun: false, dropped: 6, collected: { chunks: expect.any(Number) } });
    expect([...done.deleted].sort()).toEqual([ids[1], ids[2], ids[3], ids[5], ids[6], ids[7]].sort());
    expect((await json('log', ['--all'], { folder })).map(({ id }) => id)).toEqual([forkId, ids[8], ids[4]]);
    expect(await json('verify', ['--read-data'], { folder })).toMatchObject({ status: 'clean', tombstones: 6 });
    expect((await json('log', [], { folder })).map(({ id }) => id)).toEqual([ids[8], ids[4]]); // deleted ones do not break a lineage
  });

  test('[cli.14] takes daily rules, ages and limits; or those of savestate.yaml; refuses none and nonsense', async () => {
    const { folder } = await chat.copy();
    const dropped = async (...args: string[]) => (await json('prune', [...args, '--dry-run'], { folder })).dropped;
    expect(await dropped('--keep-daily', '1')).toBe(6); // one of the day, and what is protected
    expect(await dropped('--keep-monthly', '1')).toBe(6);
    expect(await dropped('--keep-within', '10000d')).toBe(0);
    expect(await dropped('--keep-within', '1h')).toBe(6);
    expect(await dropped('--older-than', '10000d')).toBe(0);
    expect(await dropped('--max', '4')).toBe(6);
    const own = await json('sessions', [], { folder });
    expect(await dropped('--max', '4', '--session', own[0]?.id ?? '')).toBeGreaterThan(0);
    expect((await run(['prune', '--keep-last', '1', '--session', 'another'], { folder })).code).toBe(13);
    expect((await run(['prune'], { folder })).code).toBe(2);
    expect((await run(['prune', '--keep-last', 'few'], { folder })).code).toBe(2);
    expect((await run(['prune', '--older-than', 'long'], { folder })).code).toBe(2);
    for (const age of ['5h', '0d'])
      expect((await run(['prune', '--older-than', age], { folder })).stderr).toContain('takes whole days');
    const refused = async (...args: string[]) => (await run(['prune', ...args], { folder })).stderr;
    expect(await refused('--keep-within', '99999999999d')).toContain('"99999999999d" is too long');
    for (const flag of ['--max', '--max-per-user'])
      expect(await refused(flag, '0')).toContain(`${flag} must be a whole number, 1 or more; found "0"`);
    writeFileSync(join(folder, 'savestate.yaml'), 'retention: { keepLast: 1 }\n');
    expect(await dropped()).toBe(6);
  });
});

describe.concurrent('gc and forget', () => {
  test('[cli.15] forgets a checkpoint, a range, a session or a user, and gives the space back', async () => {
    const { folder, ids } = await chat.copy();
    expect(await json('forget', ['#2', '--dry-run'], { folder })).toEqual({
      isDryRun: true,
      checkpoints: 1,
      sessions: [],
    });
    expect(await json('forget', ['#2', '--yes', '--reason', 'wrong customer'], { folder })).toMatchObject({
      checkpoints: 1,
      isDryRun: false,
    });
    const gone = await run(['show', ids[2] ?? ''], { folder });
    expect(gone).toMatchObject({ code: 13 });
    for (const how of ['--yes', '--dry-run'])
      expect(await run(['forget', 'main', how], { folder })).toMatchObject({
        code: 14,
        stderr: expect.stringContaining('branch "main" names'),
      });
    expect(await ok(['forget', 'v1..@', '--dry-run'], { folder })).toContain(
      'Would delete 3 checkpoints (branch "main" keeps 1 other)',
    );
    expect(await json('forget', ['v1..@~1', '--yes'], { folder })).toMatchObject({ checkpoints: 3 });
    expect(await json('forget', ['--user', 'user_2', '--yes'], { folder })).toMatchObject({
      checkpoints: 1,
      sessions: ['other'],
    });
    expect((await run(['forget', '--user', 'nobody', '--yes'], { folder })).code).toBe(13);
    expect(await json('forget', ['--whole-session', CHAT, '--yes'], { folder })).toMatchObject({ sessions: [CHAT] });
    expect((await run(['forget', '--whole-session', CHAT, '--yes'], { folder })).code).toBe(13);
    expect(await json('sessions', [], { folder })).toEqual([]);
    expect(await json('gc', [], { folder })).toEqual({ chunks: 0, bytes: expect.any(Number), recordings: 0 });
    expect((await run(['forget', '--yes'], { folder })).code).toBe(2);
  });

  test('[cli.15] what destroys refuses where nobody can be asked, and does nothing', async () => {
    const { folder } = await chat.copy();
    const before = readFileSync(join(folder, DATABASE));
    const lines = [
      ['prune', '--keep-last', '1'],
      ['forget', '#2'],
      ['forget', '--whole-session', CHAT],
      ['redact', '--path', 'tone'],
    ];
    for (const args of lines) {
      const { code, stderr } = await run(args, { folder });
      expect([args, code]).toEqual([args, 2]);
      expect(stderr).toContain('Say --yes');
    }
    expect(readFileSync(join(folder, DATABASE)).equals(before)).toBe(true);
  });
});

describe.concurrent('redact', () => {
  test('[cli.16] takes a text out of all states, effects and notes, and its bytes out of the file', async () => {
    const { folder, ids, forkId } = await chat.copy();
    const env = { LEAKED: 'order 1042' };
    const before = await json('log', ['--all'], { folder });
    expect(await json('redact', ['--env', 'LEAKED', '--dry-run'], { folder, env })).toMatchObject({
      isDryRun: true,
      places: 5,
      checkpoints: ROUNDS + 1,
    });
    const done = await json('redact', ['--env', 'LEAKED', '--pattern', '\\bsaid \\d', '--yes'], {
      folder,
      env,
      own: true,
    });
    expect(done).toMatchObject({ isDryRun: false, sessionId: CHAT, places: 5 + ROUNDS, effects: ROUNDS });
    expect(readFileSync(join(folder, DATABASE)).includes('order 1042')).toBe(false);
    expect(existsSync(join(folder, `${DATABASE}-wal`))).toBe(false);
    expect((await ok(['show', '@:messages[4].content'], { folder })).trim()).toBe(
      'I want a refund for [redacted], please.',
    );
    const after = await json('log', ['--all'], { folder });
    expect(after.map(({ id, savedAt, heads, tags }) => ({ id, savedAt, heads, tags }))).toEqual(
      before.map(({ id, savedAt, heads, tags }) => ({ id, savedAt, heads, tags })),
    );
    expect(after.map(({ id }) => id)).toEqual([forkId, ...ids.slice(1).reverse()]);
    expect(await json('verify', ['--read-data'], { folder })).toMatchObject({ status: 'clean', effects: ROUNDS });
    expect(existsSync(join(folder, '.state'))).toBe(false);
  });

  test('[cli.16] says in which names, which stay, the text still is', async () => {
    const { folder } = await chat.copy();
    const env = { LEAKED: 'order 1042' };
    await ok(['tag', 'about order 1042', '@'], { folder });
    await ok(['branch', 'order 1042 again', '@~1'], { folder });
    expect(await json('redact', ['--env', 'LEAKED', '--dry-run'], { folder, env })).toMatchObject({
      keptNames: ['branch', 'tag'],
    });
    const said = await ok(['redact', '--env', 'LEAKED', '--yes'], { folder, env });
    expect(said).toContain('Names stay, and these hold it, too: branch, tag.');
    expect(said).not.toContain('order 1042');
  });

  test('[cli.16] takes a text out of notes, their authors, names of steps, types and keys', async () => {
    const folder = newFolder();
    const path = join(folder, 'agent.db');
    const open = () => new CheckpointManager({ storage: new SqliteCheckpointStorage({ path, durability: 'process' }) });
    const secret = 'k-17';
    const manager = open();
    const session = await manager.session('s');
    await session.step(`call ${secret}`, () => 'ok');
    const id = await session.save({ a: 1 }, { type: `of ${secret}`, agentType: `A ${secret}`, idempotencyKey: secret });
    await setNote(manager.engine, id, { text: secret.repeat(80), author: `Ann ${secret}` });
    await session.step(`fail ${secret}`, () => Promise.reject(new Error('no'))).catch(() => undefined);
    await manager.close();
    const options = { folder, env: { LEAKED: secret } };
    await json('redact', ['--env', 'LEAKED', '-s', 's', '--yes', '--storage', 'agent.db'], options);
    expect(readFileSync(path).includes(secret)).toBe(false);
    expect(await json('verify', ['--read-data', '--storage', 'agent.db'], { folder })).toMatchObject({
      status: 'clean',
    });
    const after = open();
    const [note] = readNotes(await after.engine.repository.readRefs({ sessionId: 's' }));
    expect(note).toMatchObject({
      checkpointId: id,
      author: 'Ann [redacted]',
      text: expect.stringMatching(/^\[redacted\]/),
    });
    await after.close();
  });

  test(
    '[cli.16] takes the value at a path out; takes texts from a file or a pipe; refuses what would take everything',
    LATER,
    async () => {
      const { folder } = await chat.copy();
      await ok(['forget', '#2', '--reason', 'my parcel', '--yes'], { folder });
      await json('redact', ['--path', '$.tone', '--yes'], { folder });
      expect((await json('log', ['--where', 'state.tone != "[redacted]"'], { folder })).length).toBe(0);
      writeFileSync(join(folder, 'secret.txt'), 'my parcel\n');
      expect(await json('redact', ['--text-from', 'secret.txt', '--yes'], { folder })).toMatchObject({
        isDryRun: false,
      });
      expect(readFileSync(join(folder, DATABASE)).includes('my parcel')).toBe(false);
      expect(await json('verify', [], { folder })).toMatchObject({ status: 'clean', tombstones: 1 });
      expect(await json('redact', ['--text-from', '-', '--yes'], { folder, input: 'not there at all' })).toMatchObject({
        places: 0,
        isDryRun: true,
      });
      for (const args of [[], ['--env', 'UNSET'], ['--pattern', '.*'], ['--pattern', '('], ['--path', '!']])
        expect([args, (await run(['redact', ...args, '--yes'], { folder })).code]).toEqual([args, 2]);
      expect((await run(['redact', '--text-from', '-', '--yes'], { folder, input: 'abc' })).code).toBe(2);
    },
  );
});

describe.concurrent('export and import', () => {
  test('[cli.17] a session goes through a file or a pipe, whole or not at all', async () => {
    const { folder } = await chat.copy();
    const exported = await json('export', ['-o', 'chat.jsonl'], { folder });
    expect(exported).toMatchObject({
      file: 'chat.jsonl',
      sessionId: CHAT,
      bytes: readFileSync(join(folder, 'chat.jsonl')).length,
    });
    expect((await run(['export', '-o', 'chat.jsonl'], { folder })).code).toBe(14);
    const nowhere = await run(['export', '-o', 'no/folder/chat.jsonl'], { folder });
    expect(nowhere.stderr).toContain('no/folder is not a folder');
    writeFileSync(join(folder, 'chat.jsonl.part'), 'mine');
    await ok(['export', '-o', 'chat.jsonl', '--force'], { folder });
    expect(readFileSync(join(folder, 'chat.jsonl.part'), 'utf8')).toBe('mine');
    expect(await json('import', ['chat.jsonl', '--storage', 'other.db'], { folder })).toMatchObject({
      sessionId: CHAT,
      checkpoints: ROUNDS + 1,
      effects: ROUNDS,
    });
    const text = await ok(['export', '-s', 'other'], { folder });
    expect(await json('import', ['-', '--storage', 'file:plain'], { folder, input: text })).toMatchObject({
      sessionId: 'other',
      checkpoints: 1,
    });
    expect(await json('log', ['--storage', 'plain'], { folder })).toHaveLength(1);
    expect((await run(['import', 'chat.jsonl'], { folder })).code).toBe(14);
    expect((await run(['import', '-', '--storage', 'new.db'], { folder, input: text.slice(0, -200) })).code).toBe(4);
    expect((await run(['import', '-', '--storage', 'new.db'], { folder, input: 'hello' })).code).toBe(4);
    expect(await json('sessions', ['--storage', 'new.db'], { folder })).toEqual([]);
    expect((await run(['import', 'missing'], { folder })).code).toBe(13);
    expect((await run(['import', '.'], { folder })).stderr).toContain('is a folder');
  });

  test('[cli.17] a pipe and the end of a link are written, and neither is replaced', async () => {
    const { folder } = await chat.copy();
    execFileSync('mkfifo', [join(folder, 'pipe')]);
    const read = readFile(join(folder, 'pipe'), 'utf8');
    await ok(['export', '-o', 'pipe'], { folder });
    expect(await read).toBe(await ok(['export'], { folder }));
    expect(lstatSync(join(folder, 'pipe')).isFIFO()).toBe(true);

    writeFileSync(join(folder, 'kept.jsonl'), '', { mode: 0o600 });
    symlinkSync('kept.jsonl', join(folder, 'link.jsonl'));
    await ok(['export', '-o', 'link.jsonl', '--force'], { folder });
    expect(lstatSync(join(folder, 'link.jsonl')).isSymbolicLink()).toBe(true);
    expect(statSync(join(folder, 'kept.jsonl')).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(folder, 'kept.jsonl'), 'utf8')).toBe(await ok(['export'], { folder }));
  });

  test('[cli.17] one checkpoint is exported as JSON for people', async () => {
    const { folder, ids } = await chat.get();
    expect(JSON.parse(await ok(['export', 'v1'], { folder }))).toMatchObject({
      id: ids[4],
      state: { plan: ['greet', 'help'] },
    });
  });
});
