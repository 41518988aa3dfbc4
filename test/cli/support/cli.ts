import { spawn } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { expect } from 'vitest';
import { builtFolder } from '../../support/on-demand.ts';
import { newFolder } from './folder.ts';
import { OUTPUT_SCHEMAS, type Output, type OutputName } from './output-schemas.ts';

/** The built program. */
export const DIST = builtFolder();
export const MAIN = join(DIST, 'cli', 'main.js');

const { version: VERSION } = JSON.parse(readFileSync(join(DIST, '..', 'package.json'), 'utf8')) as { version: string };

/** How a command ended and what it said. */
export type Ran = { readonly code: number | null; readonly stdout: string; readonly stderr: string };

export type RunOptions = {
  readonly folder?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** In a process of its own. */
  readonly own?: boolean;
  /** On a screen of this width. */
  readonly columns?: number;
  /** Called with what was printed so far; may send a signal. */
  readonly onOutput?: (text: string, kill: (signal: NodeJS.Signals) => void) => void;
};

/** The variables of a command in a test: nothing of the machine's own settings comes in. */
export function cleanEnv(folder: string, more: Readonly<Record<string, string>> = {}): Record<string, string> {
  const { PATH = '' } = process.env;
  return { PATH, HOME: folder, XDG_STATE_HOME: join(folder, '.state'), USER: 'ann', TERM: 'xterm-256color', ...more };
}

/** What only a process of its own can show: input, signals, and being killed. `own` asks for one: for modules that change, or end the process. */
function needsProcess(args: readonly string[], { input, onOutput, own, env = {} }: RunOptions): boolean {
  const isDriven = input !== undefined || onOutput !== undefined || args.includes('-');
  return own === true || isDriven || args[0] === 'demo' || Object.keys(env).some((name) => /^(CRASH|DELAY)/.test(name));
}

/** Runs a command of the built program in this process, which spares a start of Node, or in its own. */
export function run(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  return needsProcess(args, options) ? runBuilt(args, options) : runHere(args, options);
}

let lastHere: Promise<unknown> = Promise.resolve();

/** One after the other: a process has one working folder and one environment. */
function runHere(args: readonly string[], options: RunOptions): Promise<Ran> {
  const folder = options.folder ?? newFolder();
  const ran = lastHere.then(async () => {
    const { runMain } = (await import(
      join(DIST, 'cli', 'run-main.js')
    )) as typeof import('../../../src/cli/run-main.ts');
    const [home, before] = [process.cwd(), process.env];
    const { columns } = options;
    const screen = columns === undefined ? {} : { isTTY: true, columns };
    const [stdout, stderr] = [Object.assign(new Collector(), screen), Object.assign(new Collector(), screen)];
    process.chdir(folder);
    process.env = cleanEnv(folder, options.env); // modules of teams look there
    try {
      const host = Object.assign(new EventEmitter(), {
        argv: [process.execPath, MAIN, ...args],
        env: process.env,
        cwd: () => folder,
        stdin: Readable.from([]),
        stdout,
        stderr,
        exit: (code: number) => {
          throw new Error(`exit ${code}`);
        },
      });
      const code = await runMain(host as unknown as NodeJS.Process, VERSION);
      return { code, stdout: stdout.text, stderr: stderr.text };
    } finally {
      process.chdir(home);
      process.env = before;
    }
  });
  lastHere = ran.catch(() => undefined);
  return ran;
}

class Collector extends Writable {
  text = '';

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.text += chunk.toString();
    done();
  }
}

/** Runs the built program in a process of its own. */
export function runBuilt(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
  const folder = options.folder ?? newFolder();
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd: folder,
    env: cleanEnv(folder, options.env),
    stdio: 'pipe',
  });
  let [stdout, stderr] = ['', ''];
  let isSignalled = false;
  const kill = (signal: NodeJS.Signals) => {
    if (!isSignalled) isSignalled = child.kill(signal); // a second one would end it at once
  };
  const told = () => options.onOutput?.(stdout + stderr, kill);
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    told();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
    told();
  });
  child.stdin.on('error', () => undefined); // it need not read what it is given
  child.stdin.end(options.input ?? '');
  return new Promise((done) => {
    child.once('close', (code) => done({ code, stdout, stderr }));
  });
}

/** Runs a command that must end well; answers what it printed. */
export async function ok(args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await run(args, options);
  expect({ args, code, stderr: code === 0 ? '' : stderr }).toEqual({ args, code: 0, stderr: '' });
  return stdout;
}

/** Runs a command with --json and checks its answer against its schema. */
export async function json<Name extends OutputName>(
  name: Name,
  args: readonly string[],
  options: RunOptions & { readonly code?: number } = {},
): Promise<Output<Name>> {
  const { code, stdout, stderr } = await run([name, '--json', ...args], options);
  expect({ name, args, code, stderr: code === (options.code ?? 0) ? '' : stderr }).toEqual({
    name,
    args,
    code: options.code ?? 0,
    stderr: '',
  });
  return OUTPUT_SCHEMAS[name].parse(JSON.parse(stdout)) as Output<Name>;
}
