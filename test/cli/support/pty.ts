import { stripVTControlCharacters } from 'node:util';
import { spawn } from '@lydell/node-pty';
import { afterAll } from 'vitest';
import { cleanEnv, MAIN } from './cli.ts';

type PtyOptions = {
  readonly folder: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly columns?: number;
  readonly rows?: number;
  /** Another program than the built one. */
  readonly program?: string;
};

const WAIT_MS = 30_000;

const screens: Screen[] = [];

afterAll(() => {
  for (const screen of screens) screen.close();
});

/** A quiet stretch as long as this means that nothing more comes. */
const SETTLE_MS = 30;
const MAX_WAITS = 30;

/** A program on a pseudo-terminal, as a person has it before them. It is gone when the file's tests have ended. */
export class Screen {
  readonly ended: Promise<number>;
  readonly #process: ReturnType<typeof spawn>;
  #output = '';
  #wake: () => void = () => undefined;
  #isEnded = false;

  constructor(args: readonly string[], { folder, env, columns = 120, rows = 40, program = MAIN }: PtyOptions) {
    this.#process = spawn(process.execPath, [program, ...args], {
      cwd: folder,
      env: cleanEnv(folder, env),
      cols: columns,
      rows,
    });
    this.#process.onData((text) => {
      this.#output += text;
      this.#wake();
    });
    this.ended = new Promise((resolve) => {
      this.#process.onExit(({ exitCode }) => {
        void this.#settle().then(() => {
          this.#isEnded = true;
          this.#wake();
          resolve(exitCode);
        });
      });
    });
    screens.push(this);
  }

  /** What a program wrote last may come after the news of its end. */
  async #settle(): Promise<void> {
    for (let before = -1, waits = 0; waits < MAX_WAITS; waits++) {
      if (this.#output.length === before && this.#output !== '') return;
      before = this.#output.length;
      await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    }
  }

  /** Ends the program if it still runs. */
  close(): void {
    if (!this.#isEnded) this.#process.kill('SIGKILL');
  }

  /** Everything that was shown, with the codes of the terminal. */
  get raw(): string {
    return this.#output;
  }

  /** Everything that was shown, as text. */
  get text(): string {
    return stripVTControlCharacters(this.#output).replaceAll('\r', '');
  }

  type(text: string): void {
    this.#process.write(text);
  }

  enter(line: string): void {
    this.type(`${line}\r`);
  }

  pressInterrupt(): void {
    this.type('\u0003');
  }

  /** Waits until this was shown, from a place in the text on; answers where it ends. */
  async shows(wanted: string | RegExp, from = 0): Promise<number> {
    const deadline = Date.now() + WAIT_MS;
    for (;;) {
      const text = this.text.slice(from);
      const at = typeof wanted === 'string' ? text.indexOf(wanted) : text.search(wanted);
      if (at >= 0) return from + at + (typeof wanted === 'string' ? wanted.length : 1);
      if (this.#isEnded || Date.now() > deadline)
        throw new Error(`It never showed ${String(wanted)}. It showed:\n${this.text}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 250);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }
}
