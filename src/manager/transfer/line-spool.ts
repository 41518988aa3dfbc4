import { closeSync, createReadStream, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { splitLines } from './split-lines.ts';

/** Lines up to here are kept in memory. */
const MEMORY_CHARS = 16 * 1024 * 1024;

/** Keeps lines until all are there: in memory, and if they are many in a file without a name, which is gone with the process. */
export class LineSpool {
  #lines: string[] = [];
  #chars = 0;
  #file: number | undefined;
  /** Where each line that is in the file ends. */
  readonly #ends: number[] = [];

  /** Returns the number of the line, by which `get` finds it. */
  add(line: string): number {
    this.#lines.push(line);
    this.#chars += line.length;
    const at = this.#ends.length + this.#lines.length - 1;
    if (this.#chars > MEMORY_CHARS) this.#spill();
    return at;
  }

  #spill(): void {
    this.#file ??= openNameless();
    let end = this.#ends.at(-1) ?? 0;
    for (const line of this.#lines) {
      const bytes = Buffer.from(`${line}\n`);
      for (let from = 0; from < bytes.length; )
        from += writeSync(this.#file, bytes, from, bytes.length - from, end + from);
      end += bytes.length;
      this.#ends.push(end);
    }
    this.#lines = [];
    this.#chars = 0;
  }

  get(at: number): string {
    const end = this.#ends[at];
    if (end === undefined || this.#file === undefined) return this.#lines[at - this.#ends.length] ?? '';
    const start = this.#ends[at - 1] ?? 0;
    const bytes = Buffer.alloc(end - start - 1);
    for (let from = 0; from < bytes.length; ) {
      const read = readSync(this.#file, bytes, from, bytes.length - from, start + from);
      if (read === 0) throw new Error('A file that was written for an import is cut off.');
      from += read;
    }
    return bytes.toString();
  }

  /** All lines, in the order they came. */
  async *read(): AsyncGenerator<string> {
    if (this.#file !== undefined)
      yield* splitLines(createReadStream('', { fd: this.#file, start: 0, autoClose: false }));
    yield* this.#lines;
  }

  close(): void {
    if (this.#file !== undefined) closeSync(this.#file);
  }
}

function openNameless(): number {
  const folder = mkdtempSync(join(tmpdir(), 'savestate-import-'));
  try {
    return openSync(join(folder, 'lines'), 'wx+', 0o600);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
