import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { COMMANDS } from '../../src/cli/command-table.ts';
import { LATER } from '../support/later.ts';
import { cleanEnv, DIST, json, MAIN, ok, run } from './support/cli.ts';
import { CHAT, DATABASE, sharedChat } from './support/fixture.ts';
import { newFolder } from './support/folder.ts';
import { OUTPUT_SCHEMAS } from './support/output-schemas.ts';

const chat = sharedChat();

describe.concurrent('storage selection', () => {
  test('[cli.1] the option comes before the variable, the configuration and the default; relative to where they are', async () => {
    const { folder } = await chat.copy();
    const where = async (args: string[], options: { env?: Record<string, string>; folder?: string } = {}) =>
      (await json('config', args, { folder, ...options })).storage;
    expect(await where([])).toBe(`sqlite:${join(folder, DATABASE)}`);
    writeFileSync(join(folder, 'savestate.yaml'), 'storage: file:from-config\nsession: chat\n');
    mkdirSync(join(folder, 'below', 'deep'), { recursive: true });
    expect(await where([], { folder: join(folder, 'below', 'deep') })).toBe(`file:${join(folder, 'from-config')}`);
    const env = { SAVESTATE_STORAGE: 'from-env.db' };
    expect(await where([], { env })).toBe(`sqlite:${join(folder, 'from-env.db')}`);
    const slip = await run(['config'], { folder, env: { SAVESTATE_STORAGEE: 'from-env.db' } });
    expect([slip.code, slip.stderr]).toEqual([0, expect.stringContaining('Did you mean SAVESTATE_STORAGE?')]);
    expect(await where(['--storage', 'sqlite:given.db'], { env })).toBe(`sqlite:${join(folder, 'given.db')}`);
    expect(await where(['--storage', 'postgres://ann:pw@db/app', '--tenant', 'acme'])).toBe(
      'postgres://ann@db/app?tenant=acme',
    );
    writeFileSync(join(folder, 'savestate.yaml'), 'storage: x.db\ntenant: acme\n');
    const stray = await run(['log'], { folder });
    expect([stray.code, stray.stderr]).toEqual([2, expect.stringContaining('says tenant, which only PostgreSQL has')]);
    const tenant = await run(['log', '--storage', 'x.db', '--tenant', 'acme'], { folder });
    expect([tenant.code, tenant.stderr]).toEqual([
      2,
      expect.stringContaining('--tenant is for PostgreSQL; the storage is'),
    ]);
    for (const address of ['mysql://db', 'sqlite:', 'postgres://[', 'http:x'])
      expect([address, (await run(['log', '--storage', address], { folder })).code]).toEqual([address, 2]);
  });

  test('[cli.1] a path is looked at: a folder is a file storage, a file a database', async () => {
    const { folder } = await chat.copy();
    await ok(['copy', '--to', 'file:plain', '-s', 'other'], { folder });
    expect((await json('stats', ['--storage', 'plain'], { folder })).kind).toBe('file');
    expect((await json('stats', ['--storage', DATABASE], { folder })).kind).toBe('sqlite');
  });

  test('[cli.1] where no storage is, databases of this folder are offered', async () => {
    const { folder } = await chat.copy();
    renameSync(join(folder, DATABASE), join(folder, 'trip.db'));
    for (const line of [['log'], ['log', 'trip.db']]) {
      const { code, stderr } = await run(line, { folder });
      expect(code).toBe(10);
      expect(stderr).toMatch(
        /There is no storage at .*checkpoints\.db\. Name another with --storage \(here: trip\.db\)/,
      );
    }
  });

  test('[cli.1] where many databases are, it is said how many are not named', async () => {
    const folder = newFolder();
    for (const name of 'abcde') writeFileSync(join(folder, `${name}.db`), '');
    expect((await run(['log'], { folder })).stderr).toContain('(here: a.db, b.db, c.db and 2 more)');
  });

  test('[cli.1] a session is named by option, variable or configuration; else the one saved to last is meant', async () => {
    const { folder } = await chat.copy();
    const session = async (args: string[], env = {}) =>
      (await json('log', ['-n', '1', ...args], { folder, env }))[0]?.sessionId;
    expect(await session([])).toBe(CHAT);
    expect(await session([], { SAVESTATE_SESSION: 'other' })).toBe('other');
    await ok(['config', 'session', 'other'], { folder });
    expect(await session([])).toBe('other');
    expect(await session(['-s', CHAT])).toBe(CHAT);
    expect((await run(['log', '-s', 'nobody'], { folder })).code).toBe(13);
  });
});

describe.concurrent('init and config', () => {
  test('[cli.18] init makes a storage and names it; again it changes nothing', async () => {
    const folder = newFolder();
    const made = await json('init', [], { folder });
    expect(made).toEqual({
      storage: `sqlite:${join(folder, DATABASE)}`,
      config: join(folder, 'savestate.yaml'),
      wasThere: false,
    });
    const config = readFileSync(made.config, 'utf8');
    expect(await json('log', [], { folder })).toEqual([]);
    expect(await json('init', [], { folder })).toMatchObject({ wasThere: true });
    expect(readFileSync(made.config, 'utf8')).toBe(config);
    const files = newFolder();
    await ok(['init', '--storage', 'file:checkpoints'], { folder: files });
    expect(existsSync(join(files, 'checkpoints', 'format.json'))).toBe(true);
    expect(await json('sessions', [], { folder: files })).toEqual([]);
    expect((await run(['init', '--storage', 'postgres://ann:secret@db/app'], { folder: newFolder() })).code).toBe(2);
  });

  test('[cli.18] config shows, sets and unsets, and leaves comments alone', async () => {
    const folder = newFolder();
    writeFileSync(join(folder, 'savestate.yaml'), '# ours\nstorage: a.db # here\n');
    expect(await json('config', ['session', 'chat-1'], { folder })).toMatchObject({
      values: { storage: 'a.db', session: 'chat-1' },
    });
    expect((await ok(['config', 'session'], { folder })).trim()).toBe('chat-1');
    await ok(['config', 'session', '--unset'], { folder });
    expect(readFileSync(join(folder, 'savestate.yaml'), 'utf8')).toBe('# ours\nstorage: a.db # here\n');
    expect((await run(['config', 'session'], { folder })).code).toBe(2);
    expect((await run(['config', 'colour', 'red'], { folder })).code).toBe(2);
    writeFileSync(join(folder, 'savestate.yaml'), 'storgae: a.db\n');
    const wrong = await run(['log'], { folder });
    expect(wrong.code).toBe(2);
    expect(wrong.stderr).toContain('storgae');
    for (const broken of ['storage: [\n', '['.repeat(20_000), 'storage: *a\n', 'a: 1\n---\nb: 2\n', 'words\n']) {
      writeFileSync(join(folder, 'savestate.yaml'), broken);
      for (const args of [['log'], ['config', 'session', 'chat-1'], ['config', 'session', '--unset']]) {
        const { code, stderr } = await run(args, { folder });
        expect([code, stderr]).toEqual([2, expect.stringMatching(/savestate\.yaml has 1 problem:\n {2}\d+:\d+ /)]);
      }
    }
    rmSync(join(folder, 'savestate.yaml'));
    mkdirSync(join(folder, 'savestate.yaml'));
    expect((await run(['log'], { folder })).stderr).toMatch(/savestate\.yaml cannot be read: it is a folder/);
  });
});

describe.concurrent('help', () => {
  test('[cli.19] the help lists every command by group, with examples, revisions and exit codes', async () => {
    const help = await ok(['--help']);
    for (const { name, summary, isHidden } of COMMANDS) {
      if (isHidden === true) expect(help).not.toContain(`\n  ${name} `);
      else
        expect(help).toMatch(
          new RegExp(`\\n  ${name} +${summary.slice(0, 20).replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')}`),
        );
    }
    expect(help).toContain('Exit codes: 0 done');
    expect(help).toContain('@{2h ago}');
  });

  test('[cli.19] every command explains itself, with examples that begin with its name', async () => {
    for (const { name, load } of COMMANDS) {
      const { command } = await load();
      for (const [line] of command.examples) expect(line).toContain(`savestate ${name}`);
      expect(command.examples.length).toBeGreaterThan(0);
    }
    for (const { name } of COMMANDS) {
      const [prose = '', examples = ''] = (await ok([name, '--help'], { columns: 80 })).split('Examples:\n');
      for (const line of prose.split('\n')) expect([name, line.length <= 80 || line]).toEqual([name, true]);
      for (const line of examples.split('\n')) expect([line, line.length <= 120]).toEqual([line, true]);
    }
    const help = await ok(['log', '--help']);
    expect(help).toContain('Examples:\n  savestate log');
    expect(help).toContain('--graph');
    expect(await ok(['help', 'log'])).toBe(help);
  });

  test('[cli.19] a mistyped command or option is told with what was meant', async () => {
    const command = await run(['lgo']);
    expect(command).toMatchObject({ code: 2, stdout: '' });
    expect(command.stderr).toContain('Did you mean log?');
    expect(await run(['checkpoints'])).toMatchObject({ code: 2, stderr: expect.stringContaining('savestate log') });
    expect((await run(['log', '--grahp'])).stderr).toContain('Did you mean --graph?');
    expect(await run(['switch'])).toMatchObject({ code: 2, stdout: '' });
    expect((await run(['gc', 'too', 'much'])).code).toBe(2);
    expect((await run([])).code).toBe(2);
    expect((await run(['log', '--progress', 'sometimes'])).code).toBe(2);
  });

  test('[cli.19] --version and --help load no command and no storage', LATER, async () => {
    const loaded = async (...args: string[]) => {
      const hook = join(newFolder(), 'hook.mjs');
      writeFileSync(
        hook,
        `import { register } from 'node:module';\nregister('data:text/javascript,' + encodeURIComponent('export async function load(url, context, next) { process._rawDebug(url); return next(url, context); }'));\n`,
      );
      const { stderr } = await promisify(execFile)(process.execPath, ['--import', hook, MAIN, ...args]);
      return stderr.split('\n').flatMap((url) => url.split('/dist/')[1] ?? []);
    };
    expect((await loaded('--version')).map((url) => url.split('/').at(-1))).toEqual(['main.js']);
    const help = [
      'cli/main.js',
      'cli/run-main.js',
      'shared/program.js',
      'shared/base.js',
      'shared/rolldown-runtime.js',
    ];
    expect((await loaded('--help')).sort()).toEqual(help.sort());
    const log = await loaded('log', '--help');
    expect(log.filter((url) => url.includes('commands/')).map((url) => url.split('/').at(-1))).toEqual(['log.js']);
    expect(await ok(['--version'])).toBe(
      `${(JSON.parse(readFileSync(join(DIST, '..', 'package.json'), 'utf8')) as { version: string }).version}\n`,
    );
    expect(await ok(['-V', '--json'])).toBe(await ok(['--version']));
  });
});

describe.concurrent('the rest', () => {
  test('[cli.2] the document says what each command prints with --json', () => {
    const document = readFileSync(join(import.meta.dirname, '../../docs/CLI.md'), 'utf8');
    for (const name of Object.keys(OUTPUT_SCHEMAS)) expect(document).toMatch(new RegExp(`^\\| \`${name}\` +\\|`, 'm'));
  });

  test.each([['frobnicate'], ['log', '--nope'], ['blame']])(
    '[cli.2] with --json a command line that is not understood (%s) is one line of JSON, too',
    async (...args) => {
      const { folder } = await chat.get();
      const { code, stderr } = await run([...args, '--json'], { folder });
      expect(code).toBe(2);
      expect(stderr.trimEnd().split('\n')).toHaveLength(1);
      expect(JSON.parse(stderr)).toMatchObject({
        error: { code: 'INVALID_INPUT', message: expect.stringMatching(/^(unknown|missing)/), exitCode: 2 },
      });
    },
  );

  test('[cli.13] doctor tells what works, and exits with 1 if something does not', async () => {
    const { folder } = await chat.get();
    const well = await json('doctor', [], { folder });
    expect(well.isHealthy).toBe(true);
    expect(well.checks.map(({ name }) => name)).toEqual([
      'node',
      'sqlite',
      'packages',
      'configuration',
      'storage',
      'content',
      'team',
    ]);
    const messageOf = (wanted: string) => well.checks.find(({ name }) => name === wanted)?.message;
    expect(messageOf('sqlite')).toMatch(
      /^version 3\.\d+\.\d+, by (node:sqlite|@photostructure\/sqlite \d+\.\d+\.\d+)$/,
    );
    expect(messageOf('packages')).toMatch(/ai \d+\.\d+\.\d+/);
    const fresh = await json('doctor', [], { folder: newFolder() });
    expect(fresh.isHealthy).toBe(true);
    expect(fresh.checks.find(({ name }) => name === 'storage')).toMatchObject({
      status: 'note',
      message: expect.stringContaining('not made yet'),
    });
    const ill = await json('doctor', ['--storage', 'missing.db'], { folder, code: 1 });
    expect(ill.checks.find(({ name }) => name === 'storage')).toMatchObject({
      status: 'failed',
      message: expect.stringContaining('missing.db'),
    });
  });

  test('[cli.19] completes commands, options, branches, tags, ids and sessions, also in bash', async () => {
    const { folder, ids } = await chat.get();
    const complete = async (...words: string[]) =>
      (await ok(['complete', '--', ...words], { folder })).trim().split('\n');
    expect(await complete('sh')).toEqual(['show']);
    expect(await complete('log', '--gr')).toEqual(['--graph']);
    expect(await complete('show', 'w')).toEqual(['what-if']);
    expect(await complete('diff', 'v1', (ids[7] ?? '').slice(0, -1))).toEqual([ids[7]]);
    expect(await complete('switch', '')).toEqual(['main', 'what-if']);
    expect(await complete('log', '-s', 'o')).toEqual(['other']);
    expect(await complete('bisect', 're')).toEqual(['reset']);
    expect(await complete('memory', 'se')).toEqual(['search']);
    for (const shell of ['zsh', 'fish']) expect(await ok(['completion', shell])).toContain('savestate complete --');
    expect((await run(['completion', 'cmd'])).code).toBe(2);
    const script = `savestate() { "${process.execPath}" "${MAIN}" "$@"; }\n${await ok(['completion', 'bash'])}
      COMP_WORDS=(savestate switch wh); COMP_CWORD=2; _savestate; echo "\${COMPREPLY[@]}"`;
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { cwd: folder, env: cleanEnv(folder) });
    expect(stdout.trim()).toBe('what-if');
  });

  test('[cli.22] demo is the tour, and langgraph is explained like the others', LATER, async () => {
    const tour = await ok(['demo']);
    expect(tour).toContain('killed by SIGKILL');
    expect(tour).toContain('verify: clean');
    expect(await ok(['langgraph', '--help'])).toContain('import <from> --to <storage>');
    expect((await run(['langgraph', 'import', 'missing.db', '--to', 'x.db'])).code).toBe(1);
    expect((await run(['langgraph', 'sideways'])).code).toBe(2);
  });
});
