import { closeSync, createReadStream, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CorruptError, hasErrorCode, InvalidInputError, withoutAdvice } from '../../core/errors.ts';

/** A line longer than this is not one of ours: states are stored in chunks of some kilobytes. */
const MAX_LINE_CHARS = 64 * 1024 * 1024;

/** Cuts a stream of texts or UTF-8 bytes into lines, in time that grows with what comes. */
export async function* splitLines(source: AsyncIterable<string | Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }); // which keeps it, to be found;
  let open: string[] = []; // the line whose end has not come yet: joined once, when it has
  let chars = 0;
  const add = (part: string): void => {
    open.push(part);
    chars += part.length;
    if (chars > MAX_LINE_CHARS)
      throw new InvalidInputError(
        `This is not an exported session: it has a line of more than ${MAX_LINE_CHARS} characters.`,
      );
  };
  for await (const part of source) {
    const [first = '', ...others] = decodePart(decoder, part).split('\n');
    add(first);
    for (const next of others) {
      yield open.join('');
      [open, chars] = [[], 0];
      add(next);
    }
  }
  add(decodePart(decoder, undefined));
  if (chars > 0) yield open.join('');
}

/** The text of a part; without one, what is left of the bytes. */
function decodePart(decoder: InstanceType<typeof TextDecoder>, part: unknown): string {
  if (typeof part === 'string') return part;
  if (part !== undefined && !(part instanceof Uint8Array))
    throw new InvalidInputError(`An exported session is read as texts or bytes; found ${typeof part}.`);
  try {
    return decoder.decode(part, { stream: part !== undefined });
  } catch (cause) {
    throw new CorruptError('The exported session is not UTF-8 text.', { cause });
  }
}

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

/** What is wrong with a line is damage of the file, whatever it would be elsewhere. */
export function atLine(line: number, error: unknown): unknown {
  const isOurs = hasErrorCode(error, 'CORRUPT') || hasErrorCode(error, 'INVALID_INPUT');
  if (!isOurs) return error;
  const { message, details } = error as CorruptError;
  const found = withoutAdvice(message); // nothing was brought in that could be verified
  return new CorruptError(`The exported session cannot be brought in: line ${line}: ${found}`, {
    cause: error,
    details: { ...details, line },
  });
}
