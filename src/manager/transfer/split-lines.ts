import { CorruptError, InvalidInputError } from '../../core/errors.ts';

/** A line longer than this is not one of ours: states are stored in chunks of some kilobytes. */
export const MAX_LINE_CHARS = 64 * 1024 * 1024;

/** Cuts a stream of texts or UTF-8 bytes into lines, in time that grows with what comes. */
export async function* splitLines(source: AsyncIterable<string | Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  const line = new OpenLine();
  for await (const part of source) {
    const text = decodePart(decoder, part);
    let from = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      line.add(text.slice(from, end));
      yield line.take();
      from = end + 1;
    }
    line.add(text.slice(from));
  }
  line.add(decodePart(decoder, undefined));
  const rest = line.take();
  if (rest !== '') yield rest;
}

/** A line whose end has not come yet; joined once, when it has. */
class OpenLine {
  #parts: string[] = [];
  #chars = 0;

  add(part: string): void {
    this.#parts.push(part);
    this.#chars += part.length;
    if (this.#chars > MAX_LINE_CHARS)
      throw new InvalidInputError(
        `This is not an exported session: it has a line of more than ${MAX_LINE_CHARS} characters.`,
      );
  }

  take(): string {
    const line = this.#parts.join('');
    this.#parts = [];
    this.#chars = 0;
    return line;
  }
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
