import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { cleanEnv, DIST, json, MAIN, ok, run } from './support/cli.ts';
import { DATABASE, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';

const chat = sharedChat();

/** A line of each command that opens the storage; what is left out here does not. */
const LINES: Readonly<Record<string, readonly string[]>> = {
  sessions: [],
  log: [],
  show: ['@'],
  diff: ['@~1', '@'],
  blame: ['messages'],
  grep: ['refund'],
  stats: [],
  follow: ['-n', '1'],
  drift: [],
  resume: ['@'],
  continue: [],
  trial: ['@', '--judge-text', 'x'],
  fork: ['@'],
  rewind: ['@~1'],
  branch: [],
  switch: ['main'],
  tag: [],
  bisect: ['run', '--where', 'true'],
  verify: ['--read-data'],
  prune: ['--keep-last', '1', '--dry-run'],
  gc: [],
  forget: ['@~1', '--yes'],
  redact: ['--path', 'tone', '--dry-run'],
  export: [],
  copy: ['--to', 'copied.db'],
  backup: ['kept'],
  repl: ['--eval', 'checkpoints'],
  doctor: [],
};

/** These make one, or have no need of it. What they meet is looked at in the files about them. */
const WITHOUT_STORAGE = [
  'undo',
  'run',
  'memory',
  'workflow',
  'import',
  'restore-backup',
  'init',
  'key',
  'config',
  'completion',
  'demo',
  'langgraph',
  'complete',
  'serve',
  'studio',
  'mcp',
];

/** What an empty storage is to a command: nothing to show, or nothing of the kind. */
const ON_EMPTY: Readonly<Record<string, number>> = {
  ...Object.fromEntries(
    [
      'show',
      'diff',
      'blame',
      'grep',
      'drift',
      'resume',
      'continue',
      'fork',
      'rewind',
      'switch',
      'trial',
      'bisect',
      'forget',
      'redact',
      'export',
    ].map((name) => [name, 13]),
  ),
  follow: 130,
};

const lines = Object.entries(LINES);

async function runLine(name: string, args: readonly string[], folder: string) {
  if (name !== 'follow') return run([name, ...args], { folder });
  return run([name, ...args], { folder, onOutput: (text, kill) => text.includes('following') && kill('SIGINT') });
}

test('every command is looked at here', () => {
  expect([...lines.map(([name]) => name), ...WITHOUT_STORAGE].sort()).toEqual(COMMANDS.map(({ name }) => name).sort());
});

describe.concurrent('a storage that is not there', () => {
  test.each(lines)('[cli.1] %s exits with 10 and makes nothing', async (name, args) => {
    const folder = newFolder();
    const { code, stdout, stderr } = await run([name, ...args], { folder });
    if (name === 'doctor') return expect([code, stdout]).toEqual([0, expect.stringContaining('not made yet')]);
    expect([code, stdout]).toEqual([10, '']);
    expect(stderr).toContain('savestate init');
    return expect(readdirSync(folder).filter((entry) => entry !== '.state')).toEqual([]);
  });
});

describe.concurrent('an empty file', () => {
  test.each(lines)('[cli.1] %s exits with 10, says that it is empty and leaves it so', async (name, args) => {
    const folder = newFolder();
    const path = join(folder, 'a.db');
    writeFileSync(path, '');
    const { code, stdout, stderr } = await run([name, ...args, '--storage', 'a.db'], { folder });
    if (name === 'doctor') expect([code, stdout]).toEqual([1, expect.stringContaining(`${path} is empty`)]);
    else expect([code, stdout, stderr]).toEqual([10, '', expect.stringContaining(`${path} is empty`)]);
    expect(readFileSync(path, 'utf8')).toBe('');
    expect(readdirSync(folder).filter((entry) => entry !== '.state')).toEqual(['a.db']);
  });

  test('[cli.1] init makes a storage of it', async () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'a.db'), '');
    expect(await ok(['init', '--storage', 'a.db'], { folder })).toContain('A new storage is at');
    expect((await run(['log', '--storage', 'a.db'], { folder })).code).toBe(0);
  });

  test('[cli.1] is no memory, either', async () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'm.db'), '');
    const { code, stderr } = await run(['memory', 'list', '--memory', 'm.db'], { folder });
    expect([code, stderr]).toEqual([10, expect.stringContaining('m.db is empty')]);
    expect(readFileSync(join(folder, 'm.db'), 'utf8')).toBe('');
  });
});

describe.concurrent('an empty storage', () => {
  const empty = (async () => {
    const folder = newFolder();
    await ok(['init'], { folder });
    return folder;
  })();

  test.each(lines)('[cli.21] %s says so', async (name, args) => {
    const { code, stderr } = await runLine(name, args, await empty);
    expect([name, code]).toEqual([name, ON_EMPTY[name] ?? 0]);
    expect(stderr).not.toMatch(/\n {4}at /);
  });
});

describe.concurrent('a damaged database', () => {
  const damaged = (async () => {
    const { folder } = await chat.copy();
    const path = join(folder, DATABASE);
    const bytes = readFileSync(path);
    bytes.fill(0xa5, 100); // the header is whole, and nothing else
    writeFileSync(path, bytes);
    return folder;
  })();

  test.each(lines)('[cli.21] %s exits with 4 and says what to do', async (name, args) => {
    const { code, stderr, stdout } = await runLine(name, args, await damaged);
    expect([name, code]).toEqual([name, name === 'doctor' ? 1 : 4]);
    expect(`${stdout}${stderr}`).toMatch(/damaged|verify/i);
    if (name === 'verify') expect(stderr).not.toContain('Run verify');
    expect(stderr).not.toMatch(/\n {4}at /);
  });

  test('[cli.21] of a list that cannot be read, verify says so, and export prints nothing', async () => {
    const { folder } = await chat.copy();
    const path = join(folder, DATABASE);
    const database = new DatabaseSync(path);
    const { page } = database.prepare("SELECT rootpage AS page FROM sqlite_schema WHERE name='checkpoint'").get() as {
      page: number;
    };
    database.close();
    const bytes = readFileSync(path);
    writeFileSync(path, bytes.fill(0xa5, (page - 1) * 4096, page * 4096));
    const verified = await run(['verify', '--read-data'], { folder });
    expect(verified).toMatchObject({ code: 4, stdout: expect.stringContaining('the list of checkpoints cannot be') });
    expect(verified.stdout).not.toContain('0 checkpoints cannot be restored');
    expect(await run(['export', '-s', 'other'], { folder })).toMatchObject({ code: 4, stdout: '' });
  });

  test('[cli.21] a file of another kind is told as such and left alone', async () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'notes.txt'), 'These are my notes, and no database at all.\n'.repeat(100));
    const { code, stderr } = await run(['log', '--storage', 'notes.txt'], { folder });
    expect(code).toBe(4);
    expect(stderr).toContain('not a SQLite database');
    expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toMatch(/^These are/);
    expect((await run(['log', '--storage', 'file:.'], { folder })).code).toBe(10);
    expect(existsSync(join(folder, 'format.json'))).toBe(false);
  });
});

describe('a database that may not be written', () => {
  const UID = process.getuid?.() === 0 ? 65_534 : process.getuid?.(); // nobody: root may write everything

  test.skipIf(UID === undefined)('[cli.21] can be looked at; a change says why it cannot be', async () => {
    const { folder } = await chat.copy();
    const path = join(folder, DATABASE);
    const start = (...args: string[]) => {
      const env = cleanEnv(folder, { XDG_STATE_HOME: '/nowhere' });
      const { status, stdout, stderr } = spawnSync(process.execPath, [MAIN, ...args, '--storage', path], {
        cwd: '/',
        uid: UID,
        env,
        encoding: 'utf8',
      });
      return { status, stdout, stderr };
    };
    chmodSync(folder, 0o755);
    chmodSync(path, 0o444);
    chmodSync(dirname(path), 0o555);
    try {
      expect(start('log', '-n', '1')).toMatchObject({ status: 0, stdout: expect.stringContaining('8\t'), stderr: '' });
      expect(start('show', '@~1', '--header')).toMatchObject({ status: 0, stderr: '' });
      expect(start('tag', 'mine')).toMatchObject({ status: 1, stderr: expect.stringContaining('read-only') });
      const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path }) });
      await manager.save({ n: 9 }, { sessionId: 'begun' }); // it is in the log, which has an index
      expect(start('sessions')).toMatchObject({ status: 0, stdout: expect.stringContaining('begun\t'), stderr: '' });
      expect(start('verify', '--read-data')).toMatchObject({ status: 0, stdout: expect.stringMatching(/^clean/) });
      await manager.close();
    } finally {
      chmodSync(dirname(path), 0o755);
    }
  });
});

const MOUNT = 'mount -t tmpfs -o size=1m none "$0" && exec sh -c "$1"';
const CAN_MOUNT = spawnSync('unshare', ['-rm', 'sh', '-c', MOUNT, '/mnt', 'true']).status === 0;
if (!CAN_MOUNT) console.log('SKIPPED: no file system can be mounted here (unshare -rm), so that no disk can be full.');

/** Saves until the disk is full, and leaves the log. */
const FILL = `
const [dist, path] = process.argv.slice(1);
const { open } = await import(dist + "/index.js");
const manager = await open(path);
const session = await manager.session("s", { initial: { texts: [] } });
const more = () => session.update((state) => void state.texts.push(String(Math.random()).repeat(300)));
for (let isFull = false; !isFull; ) isFull = await more().then(() => false, () => true);
await manager.close().then(() => process.exit(9), () => undefined);
`;

describe.skipIf(!CAN_MOUNT)('a full disk', () => {
  test('[cli.21] stops no command that looks, and none that copies to another disk; read-only, it can be looked at with its log', () => {
    const folder = newFolder();
    const disk = join(folder, 'disk');
    mkdirSync(disk);
    const look = ['log -n 1', 'sessions', 'stats', 'show @ --header', 'verify', 'backup ../kept/'];
    const onDisk = [
      'fill',
      ...look,
      'copy --to ../copied.db',
      'export -o ../s.jsonl',
      'tag a',
      'tag',
      'lock',
      ...look,
      'tag b',
    ];
    const lines = onDisk.map((line) => {
      if (line === 'fill') return `"${process.execPath}" --input-type=module -e '${FILL}' "${DIST}" "$PWD/a.db"`;
      return line === 'lock' ? 'mount -o remount,ro "$PWD"' : `"${process.execPath}" "${MAIN}" ${line} --storage a.db`;
    });
    const script = `cd "${disk}"; ${lines.map((line) => `(${line}) >&2; echo $?`).join('; ')}`;
    const env = cleanEnv(folder);
    const { stdout, stderr } = spawnSync('unshare', ['-rm', 'sh', '-c', MOUNT, disk, script], {
      env,
      encoding: 'utf8',
    });
    const codes = stdout.trim().split('\n').map(Number);
    const expected = onDisk.map((line) => [line, line === 'tag b' ? 1 : 0]);
    expect({ codes: onDisk.map((line, at) => [line, codes[at]]), stderr }).toEqual({ codes: expected, stderr });
    expect(stderr.match(/^clean: .*/gm)).toHaveLength(2);
    expect(stderr).toMatch(/is tagged "a".*\nThe disk is full, .* Everything saved is safe/);
    expect(stderr).toMatch(/^a\tchk_/m);
    expect(stderr.match(/^error: .*/gm)).toEqual([expect.stringContaining('read-only')]);
  });
});

describe.concurrent('other troubles', () => {
  test('[cli.2] a locked database exits with 11, a server that is not there with 1', async () => {
    const { folder } = await chat.copy();
    const holder = new DatabaseSync(join(folder, DATABASE));
    holder.exec('PRAGMA journal_mode=WAL; BEGIN IMMEDIATE'); // as a program of ours has it
    const locked = run(['tag', 'mine'], { folder }); // it waits for a while, and then gives up
    expect((await run(['log', '-n', '1'], { folder })).code).toBe(0); // looking goes on meanwhile
    expect(await locked).toMatchObject({ code: 11, stderr: expect.stringContaining('locked by another process') });
    holder.exec('ROLLBACK');
    holder.close();
    const { stderr, code } = await run(['log', '--storage', 'postgres://nobody@127.0.0.1:9/nothing'], { folder });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error: /);
    expect(stderr).not.toMatch(/\n {4}at /);
  });

  test('[cli.22] instances of unknown classes are shown, searched, compared, forked and redacted, and stay what they are', async () => {
    class Money {
      readonly cents: number;
      readonly note: string;
      constructor(cents: number, note: string) {
        this.cents = cents;
        this.note = note;
      }
    }
    const codec = {
      tag: 'Money',
      class: Money,
      encode: (value: object) => ({ ...(value as Money) }),
      decode: (data: unknown) => new Money((data as Money).cents, (data as Money).note),
    };
    const folder = newFolder();
    const open = () =>
      new CheckpointManager({
        storage: new SqliteCheckpointStorage({ path: join(folder, 'money.db') }),
        classes: [codec],
      });
    const manager = open();
    const session = await manager.session('s');
    await session.save({ price: new Money(995, 'secret note'), n: 1 });
    await session.save({ price: new Money(1295, 'secret note'), n: 2 });
    await manager.close();
    const options = { folder, env: { SAVESTATE_STORAGE: 'money.db', NOTE: 'secret note' } };
    expect(await json('show', ['@:price'], options)).toMatchObject({
      value: { $class: 'Money', data: { cents: 1295 } },
    });
    expect((await json('grep', ['secret', '#1'], options)).map(({ path }) => path)).toEqual(['$.price.data.note']);
    expect((await json('diff', [], options)).counts.total.modified).toBe(2);
    expect(await json('log', ['--where', 'state.price.data.cents > 1000'], options)).toHaveLength(1);
    await ok(['fork', '-b', 'b', '--set', 'n=3'], options);
    expect(await json('redact', ['--env', 'NOTE', '--yes'], options)).toMatchObject({ places: 3 });
    const again = open();
    const state = (await again.load(
      (await again.branches('s')).find(({ branch }) => branch === 'b')?.headId ?? '',
    )) as {
      price: Money;
      n: number;
    };
    expect(state.price).toEqual(new Money(1295, '[redacted]'));
    expect(state.n).toBe(3);
    await again.close();
  });
});
