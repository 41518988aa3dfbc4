import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, onTestFinished } from 'vitest';
import { builtFolder } from './on-demand.ts';

/** One line a child said. */
export type Said = Readonly<Record<string, unknown>>;

/** How a child ended. */
export type Ending = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

type StartOptions = {
  /** A command that runs the child, such as strace; it comes before `node`. */
  readonly wrapper?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  /** Who started it sees to its end, because it may outlive a test. */
  readonly outlivesTest?: boolean;
};

/** A real process that runs one of the programs in test/faults/children on the built library. It is gone when the test ends. */
export class Child {
  readonly said: Said[] = [];
  readonly ended: Promise<Ending>;
  readonly #process: ChildProcess;
  #stderr = '';
  #isEnded = false;
  readonly #listeners: (() => void)[] = [];

  constructor(program: string, { wrapper = [], env, outlivesTest = false }: StartOptions = {}) {
    builtFolder();
    const path = fileURLToPath(new URL(`../faults/children/${program}.mjs`, import.meta.url));
    const [command = process.execPath, ...args] = [...wrapper, process.execPath, path];
    this.#process = spawn(command, args, { stdio: 'pipe', env: { ...process.env, ...env } });
    this.#process.stdin?.on('error', () => undefined); // it may be dead already when it is told something
    this.#process.stderr?.on('data', (data: Buffer) => {
      this.#stderr += data.toString();
    });
    createInterface({ input: this.#process.stdout as NodeJS.ReadableStream }).on('line', (line) => this.#hear(line));
    this.ended = once(this.#process, 'close').then(([code, signal]) => {
      this.#isEnded = true;
      this.#wake();
      return { code, signal } as Ending;
    });
    if (!outlivesTest) onTestFinished(() => this.kill().then(() => undefined));
  }

  get stderr(): string {
    return this.#stderr;
  }

  #hear(line: string): void {
    this.said.push(JSON.parse(line) as Said);
    this.#wake();
  }

  /** Gives the child a line. */
  tell(value: unknown): void {
    this.#process.stdin?.write(`${JSON.stringify(value)}\n`);
  }

  /** Waits until the child has said something with this key, so many times; throws if it ends before. */
  async heard(key: string, times = 1): Promise<Said> {
    for (;;) {
      const found = this.said.filter((said) => key in said)[times - 1];
      if (found !== undefined) return found;
      if (this.#isEnded) throw new Error(`The child ended before it said "${key}". ${this.#stderr}`);
      await new Promise<void>((resolve) => this.#listeners.push(resolve));
    }
  }

  #wake(): void {
    for (const wake of this.#listeners.splice(0)) wake();
  }

  /** Stops the process where it is, as a pause of its machine would; it notices nothing until it goes on. */
  pause(): void {
    this.#process.kill('SIGSTOP');
  }

  continue(): void {
    this.#process.kill('SIGCONT');
  }

  /** Kills the process as `kill -9` does, and waits until everything it said is here. */
  async kill(): Promise<Ending> {
    if (!this.#isEnded) this.#process.kill('SIGKILL');
    return this.ended;
  }
}

/** Children of one program, started ahead, so that the next one is warm when it is needed. One for a file: what a test leaves over serves the next. */
export class WarmChildren {
  readonly #program: string;
  readonly #count: number;
  readonly #ready: Child[] = [];

  constructor(program: string, count = 2) {
    this.#program = program;
    this.#count = count;
    afterAll(async () => {
      for (const child of this.#ready) await child.kill();
    });
  }

  /** A child that has loaded the library and waits for its first line. It is gone when the test ends. */
  async next(): Promise<Child> {
    while (this.#ready.length <= this.#count) this.#ready.push(new Child(this.#program, { outlivesTest: true }));
    const child = this.#ready.shift() as Child;
    onTestFinished(() => child.kill().then(() => undefined));
    await child.heard('ready');
    return child;
  }
}
