import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { LATER } from '../support/later.ts';
import { cleanEnv, json, MAIN, ok, run } from './support/cli.ts';
import { sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';
import { Screen } from './support/pty.ts';

const chat = sharedChat();
const COLOR = '\u001b[3';

/** What is shown on a terminal when a command ends. */
async function watch(
  args: readonly string[],
  options: ConstructorParameters<typeof Screen>[1],
): Promise<Screen & { code: number }> {
  const screen = new Screen(args, options);
  return Object.assign(screen, { code: await screen.ended });
}

/** What is shown of a long text. A terminal that is closed loses what nobody has read yet, so this one stays open. */
async function watchLong(args: readonly string[], { folder, env }: { folder: string; env: Record<string, string> }) {
  const program = join(folder, 'staying.mjs');
  const ran = `spawnSync(process.execPath, [${JSON.stringify(MAIN)}, ...process.argv.slice(2)], { stdio: 'inherit' })`;
  writeFileSync(
    program,
    `import { spawnSync } from 'node:child_process';\n${ran};\nconsole.log('ENDED');\nsetInterval(() => {}, 60_000);\n`,
  );
  const screen = new Screen(args, { folder, env, program });
  await screen.shows('ENDED');
  screen.close();
  return screen.raw;
}

describe.concurrent('output', () => {
  test('[cli.3] a table with colours on a terminal; plain where it is piped', async () => {
    const { folder, ids } = await chat.get();
    const screen = await watch(['log', '-n', '2'], { folder });
    expect(screen.text).toMatch(/^# {2}checkpoint +saved \(UTC\)/m);
    expect(screen.raw).toContain(COLOR);
    const plain = await ok(['log', '-n', '1'], { folder });
    expect(plain).not.toContain('\u001b');
    expect(plain.split('\t').slice(0, 2)).toEqual(['8', ids[8]]);
  });

  test('[cli.3] NO_COLOR, TERM=dumb and --no-color take colours away; FORCE_COLOR brings them into a pipe', async () => {
    const { folder } = await chat.get();
    const screens = await Promise.all([
      watch(['branch'], { folder, env: { NO_COLOR: '1' } }),
      watch(['branch'], { folder, env: { TERM: 'dumb' } }),
      watch(['branch', '--no-color'], { folder }),
    ]);
    for (const { raw } of screens) expect(raw).not.toContain(COLOR);
    for (const form of [['--oneline'], []])
      expect(await ok(['log', ...form, '-n', '1'], { folder, env: { FORCE_COLOR: '1' } })).toContain(COLOR);
  });

  test.skipIf(!existsSync('/dev/full'))(
    '[cli.2] an answer that cannot be written is an error in words',
    LATER,
    async () => {
      const { folder } = await chat.get();
      const command = `"${process.execPath}" "${MAIN}" log > /dev/full`;
      const failed = await promisify(execFile)('sh', ['-c', command], { cwd: folder, env: cleanEnv(folder) }).catch(
        (error: unknown) => error,
      );
      expect(failed).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/^error: The answer could not be written: [^\n]+\n$/),
      });
    },
  );

  test('[cli.2] at a terminal, log says which of several sessions it shows if none was named', async () => {
    const { folder } = await chat.get();
    const shown = async (...args: string[]) => {
      const screen = new Screen(['log', '-n', '1', ...args], { folder });
      expect(await screen.ended).toBe(0);
      return screen.text;
    };
    expect(await shown()).toContain('This is session "support-42", which was saved to last.');
    expect(await shown('-s', 'support-42')).not.toContain('This is session');
  });

  test('[cli.2] a command that is suggested has the options that were given, and runs as it is', async () => {
    const { folder } = await chat.copy();
    await ok(['copy', '--to', 'other.db'], { folder });
    const given = ['--storage', 'other.db', '-s', 'support-42'];
    const commands: string[] = [];
    const note = async (args: readonly string[]) => {
      const { stdout, stderr } = await run([...args, ...given], { folder });
      commands.push(
        ...[...`${stdout}${stderr}`.matchAll(/savestate [a-z].*?(?= {4}|\n|,| \()/g)].map(([text]) => text),
      );
    };
    await note(['rewind', '@~1']);
    await note(['fork', '@', '-b', 'tried']);
    await note(['branch', '--delete', 'tried']);
    await note(['bisect', 'start', '@', '@~4']);
    for (const command of commands.filter((text) => /undo|show|diff/.test(text)))
      expect([command, (await run(command.split(' ').slice(1), { folder })).code]).toEqual([command, 0]);
    await note(['prune', '--keep-last', '1', '--yes']);
    expect(commands.pop()).toBe('savestate gc --storage other.db'); // it is not about one session
    expect(commands).toHaveLength(6);
    for (const command of commands) expect(command).toContain(' --storage other.db --session support-42');
  });

  test('[cli.2] a session that is not there is told with those that are', async () => {
    const { folder } = await chat.copy();
    for (const command of ['log', 'show', 'drift', 'diff']) {
      const { code, stderr } = await run([command, '-s', 'suport-42'], { folder });
      const told = expect.stringMatching(/no session "suport-42".*There are: .*support-42.*-s/s);
      expect([command, code, stderr]).toEqual([command, 13, told]);
    }
  });

  test('[cli.2] answers are on stdout and words on stderr; --quiet leaves the words out; errors are JSON with --json', async () => {
    const { folder } = await chat.copy();
    const loud = await run(['tag', 'a'], { folder });
    expect(loud.stdout).toContain('is tagged "a"');
    const words = await run(['rewind', '@~1'], { folder });
    expect(words.stderr).toContain('savestate undo');
    expect((await run(['rewind', '@~1', '--quiet'], { folder })).stderr).toBe('');
    const failed = await run(['show', 'nothing', '--json'], { folder });
    expect(failed.stdout).toBe('');
    expect(JSON.parse(failed.stderr)).toMatchObject({
      error: { code: 'NOT_FOUND', exitCode: 13, message: expect.stringContaining('nothing') },
    });
  });

  test('[cli.3] a very long value is cut on a screen, which says how to see it; nowhere else', LATER, async () => {
    const folder = newFolder();
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'long.db') }) });
    const session = await manager.session('s');
    const text = 'x'.repeat(20_000);
    await session.save({ text });
    await session.save({ text: '' });
    await manager.close();
    const options = { folder, env: { SAVESTATE_STORAGE: 'long.db', PAGER: 'cat' } };
    const count = (shown: string) => shown.split('x').length - 1;
    for (const args of [['show', '@~1'], ['diff']]) {
      const raw = await watchLong(args, options);
      expect(raw).toMatch(/x… 16,0\d\d more\s+characters/);
      expect(raw).toContain('savestate show <revision>:<path>');
      expect(count(raw)).toBeLessThan(4_010);
      for (const form of [[], ['--json']]) expect(count(await ok([...args, ...form], options))).toBeGreaterThan(20_000);
    }
    for (const args of [
      ['show', '@~1:text'],
      ['show', '@~1', '--raw'],
    ])
      expect(count(await watchLong(args, options))).toBeGreaterThanOrEqual(20_000);
  });

  test('[cli.3] what is stored cannot give orders to the terminal', async () => {
    const folder = newFolder();
    const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path: join(folder, 'evil.db') }) });
    const session = await manager.session('s');
    const evil = 'a\u001b]0;owned\u0007\u001b[2J\rb\u009b31m\u001b[8mhidden\u202ebackwards\u007f';
    await session.save({ messages: [] });
    await session.save({ messages: [{ role: 'user', content: evil }], text: evil }, { note: evil, reason: evil });
    const turned = 'a\u202ename'; // names have no control characters, but may turn around
    await session.step(turned, () => ({ [evil]: evil }), { input: evil });
    await session.step('fails', () => Promise.reject(new Error(evil))).catch(() => undefined);
    const said = [{ role: 'user', content: evil }];
    await session.save({ text: evil, [evil]: evil, messages: said }, { metadata: { [evil]: evil }, trigger: turned });
    await manager.close();
    const lines = [
      ['show'],
      ['show', '@:text'],
      ['diff'],
      ['log', '--long'],
      ['log'],
      ['log', '--steps'],
      ['log', '--graph'],
      ['stats'],
      ['verify'],
      ['blame', 'messages'],
      ['grep', 'owned'],
      ['drift'],
      ['sessions'],
    ];
    const screens = await Promise.all(
      lines.map((args) => watch([...args, '--storage', 'evil.db', '--no-color'], { folder })),
    );
    for (const { raw, code } of screens) {
      expect(code).toBe(0);
      for (const order of ['\u001b', '\u0007', '\u009b', '\u202e']) expect(raw).not.toContain(order);
      expect(raw).not.toMatch(/\r(?!\n)/);
    }
    expect(screens[1]?.text).toContain('a\\u001b]0;owned\\u0007');
    // Nor with colours: those of ours are not those of others.
    const colored = await watch(['show', '--storage', 'evil.db'], { folder });
    expect(colored.raw).toContain(COLOR);
    expect(colored.raw).not.toContain('\u001b[8m');
    expect(await ok(['show', '@:text', '--raw', '--storage', 'evil.db'], { folder })).toBe(`${evil}\n`); // for programs
    // Nor through a pipe, which may end at a terminal: `savestate show | head`.
    const piped = await Promise.all([
      ...lines.map((args) => ok([...args, '--storage', 'evil.db'], { folder })),
      ok(['show', '--storage', 'evil.db'], { folder, env: { FORCE_COLOR: '1' } }),
      ok(['export', '--storage', 'evil.db'], { folder }),
      ok(['export', '@', '--storage', 'evil.db'], { folder }),
      ok(['export', '--format', 'atif', '--storage', 'evil.db'], { folder }),
      ok(['log', '--json', '--storage', 'evil.db'], { folder }),
      ok(['show', '--json', '--storage', 'evil.db'], { folder }),
    ]);
    for (const text of piped)
      for (const order of ['\u001b]', '\u001b[2J', '\u001b[8m', '\u0007', '\u009b', '\u202e', '\u007f', '\r'])
        expect(text).not.toContain(order);
    expect(JSON.parse(piped.at(-1) ?? '')).toMatchObject({ state: { text: evil } });
    // An export has the same bytes wherever it goes, and is what was stored.
    const file = join(folder, 'evil.jsonl');
    await ok(['export', '-o', file, '--storage', 'evil.db'], { folder });
    expect(piped.at(-5)).toBe(readFileSync(file, 'utf8'));
    await ok(['import', file, '--storage', 'copy.db'], { folder });
    expect(await ok(['show', '@:text', '--raw', '--storage', 'copy.db'], { folder })).toBe(`${evil}\n`);
  });

  test('[cli.3] an error, a note and a prompt cannot either', LATER, async () => {
    const folder = newFolder();
    const codec = { tag: 'evil\u001b]0;owned\u0007\u202e', class: Map, encode: () => ({}), decode: () => new Map() };
    const storage = new SqliteCheckpointStorage({ path: join(folder, 'evil.db') });
    const manager = new CheckpointManager({ storage, classes: [codec] });
    const session = await manager.session('s');
    await session.save({ n: 1 }, { metadata: { at: new Map() } });
    await manager.close();
    const lines = [['show'], ['log', '--long'], ['repl', '--eval', 'show'], ['show', 'no\u001b]0;owned\u0007\u202e']];
    const screens = await Promise.all(lines.map((args) => watch([...args, '--storage', 'evil.db'], { folder })));
    for (const { raw } of screens)
      for (const order of ['\u001b]', '\u0007', '\u202e']) expect(raw).not.toContain(order);
    const piped = await Promise.all(lines.map((args) => run([...args, '--storage', 'evil.db'], { folder })));
    for (const { stdout, stderr } of piped)
      for (const order of ['\u001b]', '\u0007', '\u202e']) expect(stdout + stderr).not.toContain(order);
    expect(screens.at(-1)?.text).toContain('error: There is no checkpoint "no\\u001b]0;owned');
  });

  test('[cli.20] what is longer than the screen goes through the pager, and nothing else does', async () => {
    const { folder } = await chat.get();
    const pager = join(newFolder(), 'pager.sh');
    writeFileSync(pager, '#!/bin/sh\necho "<paged>"\ncat\n', { mode: 0o755 });
    const env = { PAGER: pager };
    const [long, short, off, missing] = await Promise.all([
      watch(['log', '--long'], { folder, env, rows: 10 }),
      watch(['branch'], { folder, env, rows: 10 }),
      watch(['log', '--long', '--no-pager'], { folder, env, rows: 10 }),
      watch(['log', '--long'], { folder, env: { PAGER: '/no/such/pager' }, rows: 10 }),
    ]);
    expect(long.text).toContain('<paged>');
    for (const { text } of [short, off, missing]) expect(text).not.toContain('<paged>');
    expect(missing.text).toContain('metadata  { "round": 1 }');
    expect([long, short, off, missing].map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(await ok(['log', '--long'], { folder, env })).not.toContain('<paged>');
  });

  test('[cli.2] a pipe that is closed early is no error', async () => {
    const { folder } = await chat.get();
    const { stdout, stderr } = await promisify(execFile)(
      'bash',
      ['-c', `"${process.execPath}" "${MAIN}" export | head -c 10; echo " \${PIPESTATUS[0]}"`],
      { cwd: folder, env: cleanEnv(folder) },
    );
    expect(stdout).toBe('{"format": 0\n');
    expect(stderr).toBe('');
  });
});

describe.concurrent('questions', () => {
  test('[cli.15] shows what it would do and asks: no leaves everything, yes does it', async () => {
    const { folder } = await chat.copy();
    const no = new Screen(['prune', '--keep-last', '2'], { folder });
    const at = await no.shows('drop  auto: no keep rule asks for it');
    await no.shows('This deletes 6 checkpoints for good. [y/N]', at);
    no.enter('n');
    expect(await no.ended).toBe(0);
    expect(await json('log', ['--all'], { folder })).toHaveLength(9);
    const yes = new Screen(['forget', '--whole-session', 'other'], { folder });
    await yes.shows('[y/N]');
    yes.enter('yes');
    expect(await yes.ended).toBe(0);
    expect(await json('sessions', [], { folder })).toHaveLength(1);
  });

  test('[cli.21] Ctrl-C at a question stops the command with 130, and nothing was done', async () => {
    const { folder } = await chat.copy();
    const screen = new Screen(['forget', '--whole-session', 'other'], { folder });
    await screen.shows('[y/N]');
    screen.pressInterrupt();
    expect(await screen.ended).toBe(130);
    expect(screen.text).toContain('Stopped.');
    expect(await json('sessions', [], { folder })).toHaveLength(2);
  });

  test('[cli.15] --no-input asks nothing, also on a terminal', async () => {
    const { folder } = await chat.copy();
    const screen = await watch(['forget', '#2', '--no-input'], { folder });
    expect(screen.code).toBe(2);
  });
});

describe.concurrent('progress', () => {
  const long = makeLong();

  test('[cli.20] a bar on a terminal, gone at the end; none where it is piped', async () => {
    const { folder } = await long;
    const screen = await watch(['verify', '--progress', 'always'], { folder, columns: 100 });
    expect(screen.raw).toMatch(/[█░]{10,} \d+ % {2}\d+\/1200 checkpoints/);
    expect(screen.raw).toContain('\r\u001b[K');
    expect(screen.text).toMatch(/clean: 1,200 checkpoints/);
    const piped = await run(['verify'], { folder });
    expect(piped.stderr).toBe('');
    const lines = await run(['stats', '--progress', 'always'], { folder });
    expect(lines.stderr).toMatch(/^\d+ % {2}\d+\/1200 checkpoints/);
    expect((await run(['stats', '--progress', 'always', '--json'], { folder })).stderr).toBe('');
  });

  test('[cli.21] Ctrl-C in the middle of work stops it with 130, and the storage is whole', LATER, async () => {
    const { folder } = await long;
    const screen = new Screen(['bisect', 'run', '--scan', '--progress', 'always', '--where', 'state.n < 0'], {
      folder,
    });
    await screen.shows('/1200 checkpoints');
    screen.pressInterrupt();
    expect(await screen.ended).toBe(130);
    expect(await json('verify', [], { folder })).toMatchObject({ status: 'clean' });
  });
});

async function makeLong(): Promise<{ folder: string }> {
  const folder = newFolder();
  const path = join(folder, 'long.db');
  const manager = new CheckpointManager({ storage: new SqliteCheckpointStorage({ path, durability: 'process' }) });
  const session = await manager.session('long');
  for (let n = 0; n < 1200; n++) await session.save({ n });
  await manager.close();
  writeFileSync(join(folder, 'savestate.yaml'), 'storage: long.db\n');
  return { folder };
}
