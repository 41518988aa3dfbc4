import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { digestText } from '../../core/tree/chunk.ts';
import { isProcessAlive } from '../../storage/process-identity.ts';
import type { CodeExecutionConfig } from './code-executor.ts';
import { parseCodeExecutionConfig } from './code-executor.ts';
import { CodeProcess } from './code-process.ts';
import { describeOutcome } from './describe-outcome.ts';
import { LocalCodeExecutor, type LocalExecutorOptions } from './local-code-executor.ts';
import { newMark, RUN_MARK } from './marked-processes.ts';

let workDir: string;
beforeEach(() => {
  workDir = mkdtempSync(join(tmpdir(), 'savestate-code-'));
});
afterEach(() => rmSync(workDir, { recursive: true, force: true }));

type Config = Exclude<CodeExecutionConfig, false>;

function executor(config: Partial<Config> = {}, options: LocalExecutorOptions = {}) {
  return new LocalCodeExecutor({ workDir, timeoutMs: 20_000, ...config }, { environment: process.env, ...options });
}

const run = (language: string, code: string, config: Partial<Config> = {}) => executor(config).run({ language, code });

async function until(isTrue: () => boolean, limitMs = 60_000): Promise<void> {
  const end = performance.now() + limitMs;
  while (!isTrue()) {
    if (performance.now() > end) throw new Error('It did not come to pass in time.');
    await delay(10);
  }
}

/** What sleeps for a minute was not waited for. */
const WHOLE_MS = 50_000;

const readPid = (name: string) => Number(readFileSync(join(workDir, name), 'utf8'));
const hasPid = (name: string) => existsSync(join(workDir, name)) && readPid(name) > 0;
const hasPython = process.env.PATH?.split(':').some((folder) => existsSync(join(folder, 'python3'))) === true;

describe('[code.2] a block that is run', () => {
  test('gives its output and exit code, and its file is named after its content', async () => {
    const result = await run('javascript', 'console.log(6 * 7);');
    expect(result).toMatchObject({ exitCode: 0, output: '42\n', isTruncated: false, isTimedOut: false });
    expect(result.failure).toBeUndefined();
    expect(result.file).toMatch(/^code-[0-9a-f]{16}\.cjs$/);
    expect(readdirSync(workDir)).toEqual([result.file]);
    expect((await run('js', 'console.log(6 * 7);')).file).toBe(result.file);
    expect(JSON.parse(JSON.stringify(result))).toEqual(result);
  });

  test.each([
    ['js', "const fs = require('node:fs'); console.log(typeof fs.readFileSync);", 'function\n'],
    ['node', "import fs from 'node:fs';\nconsole.log(typeof fs.readFileSync);", 'function\n'],
    ['js', 'async function go() { return 5; }\nconst five = await go();\nconsole.log(five);', '5\n'],
    ['sh', 'echo "$0" | cut -c1-5; pwd -P | wc -l', 'code-\n1\n'],
    ['bash', '[[ abc == a* ]] && echo bash', 'bash\n'],
    ['shell', 'printf x', 'x'],
  ])('%s: %s', async (language, code, output) => {
    const result = await run(language, code);
    expect({ output: result.output, failure: result.failure }).toEqual({ output, failure: undefined });
  });

  test.runIf(hasPython)('python prints in the order in which it was printed', async () => {
    const result = await run('python', 'import sys\nfor i in range(3):\n  print(i)\n  print("e", i, file=sys.stderr)');
    expect(result.output).toBe('0\ne 0\n1\ne 1\n2\ne 2\n');
  });

  test('both streams arrive in the order in which they were written', async () => {
    const result = await run('sh', 'for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done');
    expect(result.output).toBe([1, 2, 3, 4, 5, 6, 7, 8, 9].map((i) => `o${i}\ne${i}\n`).join(''));
  });

  test('has the working directory as its own, made if it is not there', async () => {
    const deeper = join(workDir, 'a/b');
    const result = await run('sh', 'pwd; echo here > made.txt', { workDir: deeper });
    expect(result.output).toBe(`${deeper}\n`);
    expect(readFileSync(join(deeper, 'made.txt'), 'utf8')).toBe('here\n');
  });

  test('several may run at once', async () => {
    const shared = executor();
    const results = await Promise.all([1, 2, 3].map((i) => shared.run({ language: 'sh', code: `echo ${i}` })));
    expect(results.map(({ output }) => output)).toEqual(['1\n', '2\n', '3\n']);
  });
});

describe('[code.2] what goes wrong is a result, not a throw', () => {
  test('an exit code', async () => {
    const result = await run('sh', 'echo before; exit 3');
    expect(result).toMatchObject({ exitCode: 3, output: 'before\n' });
    expect(result.failure).toEqual({ message: 'The code exited with 3.', trace: 'before\n' });
  });

  test('an error, named with its trace', async () => {
    const result = await run('js', 'function deep() { throw new RangeError("too deep"); }\ndeep();');
    expect(result.exitCode).toBe(1);
    expect(result.failure?.message).toBe('The code exited with 1: RangeError: too deep');
    expect(result.failure?.trace).toContain('at deep');
  });

  test.runIf(hasPython)('an error of Python', async () => {
    const result = await run('python', '1 / 0');
    expect(result.failure?.message).toBe('The code exited with 1: ZeroDivisionError: division by zero');
  });

  test('a signal', async () => {
    expect(await run('sh', 'kill -SEGV $$')).toMatchObject({
      exitCode: null,
      signal: 'SIGSEGV',
      failure: { message: 'The code was ended by SIGSEGV.' },
    });
  });

  test('a program that is not there', async () => {
    const result = await executor({}, { environment: { PATH: '/nowhere' } }).run({ language: 'python', code: 'x' });
    expect(result.exitCode).toBeNull();
    expect(result.failure?.message).toBe(
      'There is no python3 or python on the path /nowhere. Install it, or do not ask for python.',
    );
    expect(readdirSync(workDir)).toEqual([]);
  });

  test('a language that is not known, or not allowed', async () => {
    expect((await run('cobol', 'x')).failure?.message).toContain('"cobol" is not one of the languages');
    const result = await run('sh', 'echo x', { languages: ['python', 'js'] });
    expect(result.failure?.message).toBe('"sh" is not one of the languages that are run here: python, js.');
    expect((await run('javascript', 'console.log(1)', { languages: ['js'] })).exitCode).toBe(0);
  });

  test('a working directory that cannot be made', async () => {
    writeFileSync(join(workDir, 'file'), '');
    const result = await run('sh', 'echo x', { workDir: join(workDir, 'file/sub') });
    expect(result.failure?.message).toContain('could not be written');
    expect(result.exitCode).toBeNull();
  });

  test('code that no process takes', async () => {
    expect((await run('sh', 'echo \0 x')).language).toBe('sh');
    expect((await run('js', ')(')).failure?.message).toContain('SyntaxError');
  });

  test('a link planted in place of the file is not written through', async () => {
    const { file } = await run('sh', 'echo x');
    const other = mkdtempSync(join(tmpdir(), 'savestate-outside-'));
    const outside = join(other, 'precious');
    writeFileSync(outside, 'precious');
    rmSync(join(workDir, file as string));
    symlinkSync(outside, join(workDir, file as string));
    expect((await run('sh', 'echo x')).output).toBe('x\n');
    expect(readFileSync(outside, 'utf8')).toBe('precious');
    rmSync(other, { recursive: true });
  });
});

describe('[code.3] a flood', () => {
  test(
    'of 100 MB leaves its beginning and its end, in bounded memory, and the code ends by itself',
    LATER,
    async () => {
      const before = process.memoryUsage().rss;
      let peak = before;
      const watch = setInterval(() => {
        peak = Math.max(peak, process.memoryUsage().rss);
      }, 5);
      const result = await run('sh', 'echo START; head -c 100000000 /dev/zero | tr "\\0" x; echo END; exit 4', {
        maxOutputBytes: 100_000,
      });
      clearInterval(watch);
      expect(result.exitCode).toBe(4);
      expect(result.isTruncated).toBe(true);
      expect(result.output).toMatch(/^START\nx+\n\[\.\.\. \d+ bytes of output left out \.\.\.\]\nx+END\n$/);
      expect(result.output.length).toBeLessThan(100_100);
      expect((peak - before) / 1e6).toBeLessThan(60);
    },
  );

  test('without end is stopped', async () => {
    const outcome = await new CodeProcess({
      program: 'sh',
      args: ['-c', 'while :; do echo flood; done & yes flood'],
      cwd: workDir,
      env: { PATH: process.env.PATH ?? '' },
      mark: newMark(digestText(workDir)),
      timeoutMs: 20_000,
      maxOutputBytes: 100,
      drainBytes: 20_000_000,
    }).finished;
    const result = describeOutcome(outcome, { language: 'sh', file: 'flood.sh', durationMs: 0, timeoutMs: 20_000 });
    expect(result.failure?.message).toMatch(/^The code was stopped because it had printed \d+ bytes\.$/);
    expect(result.signal).toBe('SIGKILL');
  });

  test('of bytes that are no text is a text all the same', async () => {
    const result = await run('js', 'process.stdout.write(Buffer.from([0x80, 0x00, 0xff, 0x41]))');
    expect(result.output).toBe('\uFFFD\0\uFFFDA');
  });
});

describe('[code.3] time', () => {
  test('that is up stops code that would go on, and what it printed is kept', async () => {
    const result = await run('sh', 'echo started; sleep 60', { timeoutMs: 1200 });
    expect(result).toMatchObject({ isTimedOut: true, exitCode: null, signal: 'SIGTERM', output: 'started\n' });
    expect(result.failure?.message).toBe('The code did not end within 1200 ms and was stopped.');
    expect(result.durationMs).toBeLessThan(WHOLE_MS);
  });

  test('is given for tidying up, and then SIGKILL comes', async () => {
    const polite = await run('sh', 'trap "echo bye; exit 7" TERM; while :; do sleep 0.05; done', { timeoutMs: 1200 });
    expect(polite).toMatchObject({ isTimedOut: true, exitCode: 7, output: expect.stringMatching(/bye\n$/) });
    const stubborn = await run('sh', 'trap "" TERM; while :; do sleep 0.05; done', { timeoutMs: 1200 });
    expect(stubborn).toMatchObject({ isTimedOut: true, signal: 'SIGKILL' });
  });
});

describe('[code.4] nothing that code started outlives its run', () => {
  test.each([
    ['a child in the background', 'sleep 60 & echo $! > pid'],
    ['one that ignores signals', '(trap "" TERM HUP INT; sleep 60) & echo $! > pid'],
    ['a grandchild', 'sh -c "sleep 60 & echo \\$! > pid" &\nwhile [ ! -s pid ]; do sleep 0.01; done'],
    [
      'one in a session of its own',
      'setsid sh -c "echo \\$\\$ > pid; sleep 60" &\nwhile [ ! -s pid ]; do sleep 0.01; done',
    ],
    ['one with its output elsewhere', 'nohup sleep 60 > /dev/null 2>&1 & echo $! > pid'],
  ])('%s is killed when the code ends', async (_, code) => {
    const result = await run('sh', code);
    expect(result).toMatchObject({ exitCode: 0, isTimedOut: false });
    expect(result.durationMs).toBeLessThan(WHOLE_MS);
    await until(() => !isProcessAlive(String(readPid('pid'))));
  });

  test('one that left its group and cleared its environment does not hold up the result', async () => {
    const code = 'setsid env -i sh -c "echo \\$\\$ > pid; exec sleep 60" &\nwhile [ ! -s pid ]; do sleep 0.01; done';
    const result = await run('sh', code);
    expect(result.exitCode).toBe(0);
    expect(result.durationMs).toBeLessThan(WHOLE_MS);
    process.kill(readPid('pid'), 'SIGKILL');
  });

  test('a small fork bomb is killed with all its children', async () => {
    const bomb = `
      const { spawn } = require('node:child_process');
      const { appendFileSync } = require('node:fs');
      const depth = Number(process.argv[2] ?? 3);
      process.on('SIGTERM', () => undefined);
      appendFileSync('pids', process.pid + ' ');
      if (depth > 0) for (const _ of [1, 2]) spawn(process.execPath, [__filename, depth - 1], { detached: depth === 2, stdio: 'inherit' });
      setInterval(() => undefined, 1000);`;
    const result = await run('js', bomb, { timeoutMs: 4000 });
    expect(result.isTimedOut).toBe(true);
    const pids = readFileSync(join(workDir, 'pids'), 'utf8').trim().split(' ').map(Number);
    expect(pids.length).toBeGreaterThan(3);
    await until(() => !pids.some((pid) => isProcessAlive(String(pid))));
  });

  test('an abort kills all, and rejects with its reason', async () => {
    const abort = new AbortController();
    const running = executor().run(
      { language: 'sh', code: 'sleep 60 & echo $! > pid; wait' },
      { signal: abort.signal },
    );
    await until(() => hasPid('pid'));
    abort.abort(new Error('Enough.'));
    await expect(running).rejects.toThrow('Enough.');
    await until(() => !isProcessAlive(String(readPid('pid'))));
    await expect(executor().run({ language: 'sh', code: 'x' }, { signal: abort.signal })).rejects.toThrow('Enough.');
  });

  test('closing the executor kills all, and nothing runs any more', async () => {
    const closing = executor();
    const running = closing.run({ language: 'sh', code: 'sleep 60 & echo $! > pid; wait' });
    await until(() => hasPid('pid'));
    await closing.close();
    expect((await running).failure?.message).toBe('The code was stopped because its executor was closed.');
    await until(() => !isProcessAlive(String(readPid('pid'))));
    expect((await closing.run({ language: 'sh', code: 'echo x' })).failure?.message).toContain('closed');
    await closing.close();
  });

  test('code of a process that was killed is stopped before the next code runs', async () => {
    const gone = spawnSync('sh', ['-c', 'echo $$'], { encoding: 'utf8' });
    const start = (owner: number | string, place: string) => {
      const env = { [RUN_MARK]: `${place}:${owner}:before` };
      const { pid } = spawn('/bin/sleep', ['60'], { env, detached: true, stdio: 'ignore' });
      return pid as number;
    };
    const place = digestText(realpathSync(workDir));
    const orphan = start(Number(gone.stdout), place);
    const others = [start(process.pid, place), start(Number(gone.stdout), digestText('elsewhere'))];
    const next = await run('sh', `cat /proc/${orphan}/environ 2>/dev/null | wc -c`);
    expect(next.output.trim()).toBe('0');
    await until(() => !isProcessAlive(String(orphan)));
    expect(others.map((pid) => isProcessAlive(String(pid)))).toEqual([true, true]);
    for (const pid of others) process.kill(pid, 'SIGKILL');
  });
});

describe('[code.5] the environment of code', () => {
  test('holds PATH, HOME and LANG, what is named, and nothing else', async () => {
    const environment = {
      PATH: process.env.PATH,
      SECRET_KEY: 'sk-secret',
      SHOWN: 'yes',
      HOME: '/root',
      EMPTY: undefined,
    };
    const result = await executor({ env: ['SHOWN', 'EMPTY', 'ABSENT', 'HOME', 'PATH'] }, { environment }).run({
      language: 'js',
      code: 'console.log(JSON.stringify(process.env))',
    });
    const { PATH, HOME, LANG, SHOWN, SAVESTATE_CODE_RUN, ...rest } = JSON.parse(result.output);
    expect({ PATH, HOME, LANG, SHOWN }).toEqual({
      PATH: environment.PATH,
      HOME: workDir,
      LANG: 'C.UTF-8',
      SHOWN: 'yes',
    });
    expect(SAVESTATE_CODE_RUN).toContain(`:${process.pid}-`);
    expect(Object.keys(rest).filter((name) => !['PWD', 'OLDPWD', 'SHLVL', '_'].includes(name))).toEqual([]);
  });

  test('holds the idempotency key of its step', async () => {
    const block = { language: 'sh', code: 'echo $SAVESTATE_IDEMPOTENCY_KEY' };
    expect((await executor().run(block, { idempotencyKey: 'key_1' })).output).toBe('key_1\n');
  });

  test('needs none to be given', async () => {
    const result = await new LocalCodeExecutor({ workDir }).run({ language: 'sh', code: 'echo "$PATH"' });
    expect(result.output).toContain('/usr/bin');
  });
});

describe('[code.5] the stored configuration', () => {
  test.each([
    [false],
    [{ workDir: 'work' }],
    [
      {
        workDir: '/w',
        timeoutMs: 5,
        maxOutputBytes: 0,
        languages: ['js'],
        env: ['A_B'],
        capture: { ignore: ['x'], maxFileBytes: 1 },
      },
    ],
    [{ workDir: 'w', capture: false }],
  ])('%j is read as it is', (config) => {
    expect(parseCodeExecutionConfig(config)).toEqual(config);
  });

  test.each([
    [true],
    [undefined],
    [{}],
    [{ workDir: '' }],
    [{ workDir: 'a\0b' }],
    [{ workDir: 'w', timeoutMs: 0 }],
    [{ workDir: 'w', timeoutMs: 1e12 }],
    [{ workDir: 'w', maxOutputBytes: -1 }],
    [{ workDir: 'w', env: ['A=B'] }],
    [{ workDir: 'w', useDocker: true }],
    [{ workDir: 'w', capture: { depth: 3 } }],
  ])('%j is refused', (config) => {
    expect(() => parseCodeExecutionConfig(config)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });
});
