import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { splitLines } from './split-lines.ts';

/** Lines up to here are kept in memory. */
const MEMORY_CHARS = 16 * 1024 * 1024;

/** Keeps lines until all are there: in memory, and if they are many in a file without a name, which is gone with the process. */
export class LineSpool {
  #lines: string[] = [];
  #chars = 0;
  #file: FileHandle | undefined;

  async add(line: string): Promise<void> {
    this.#lines.push(line);
    this.#chars += line.length;
    if (this.#chars > MEMORY_CHARS) await this.#spill();
  }

  async #spill(): Promise<void> {
    this.#file ??= await openNameless();
    await this.#file.appendFile(this.#lines.map((line) => `${line}\n`).join(''));
    this.#lines = [];
    this.#chars = 0;
  }

  /** All lines, in the order they came. */
  async *read(): AsyncGenerator<string> {
    if (this.#file !== undefined) yield* splitLines(this.#file.createReadStream({ start: 0, autoClose: false }));
    yield* this.#lines;
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }
}

async function openNameless(): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), 'savestate-import-'));
  try {
    return await open(join(folder, 'lines'), 'wx+', 0o600);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
