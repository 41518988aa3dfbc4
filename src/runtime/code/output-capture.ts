/** An output as far as it was kept. */
export type CapturedOutput = { readonly text: string; readonly isTruncated: boolean; readonly totalBytes: number };

/**
 * Keeps the beginning and the end of a stream of bytes, in memory of about twice the limit however long the stream is. The beginning says
 * what ran, the end how it failed.
 */
export class OutputCapture {
  readonly #headBytes: number;
  readonly #tailBytes: number;
  readonly #head: Buffer[] = [];
  #headLeft: number;
  #tail: Buffer[] = [];
  #tailHeld = 0;
  #total = 0;

  constructor(maxBytes: number) {
    this.#headBytes = Math.ceil(maxBytes / 2);
    this.#tailBytes = maxBytes - this.#headBytes;
    this.#headLeft = this.#headBytes;
  }

  get totalBytes(): number {
    return this.#total;
  }

  add(chunk: Buffer): void {
    this.#total += chunk.length;
    const forHead = Math.min(this.#headLeft, chunk.length);
    if (forHead > 0) {
      // Copied: a slice would keep the whole chunk alive.
      this.#head.push(Buffer.from(chunk.subarray(0, forHead)));
      this.#headLeft -= forHead;
    }
    if (forHead < chunk.length && this.#tailBytes > 0) this.#addTail(chunk.subarray(forHead));
  }

  #addTail(chunk: Buffer): void {
    const kept = Buffer.from(chunk.subarray(-this.#tailBytes));
    this.#tail.push(kept);
    this.#tailHeld += kept.length;
    if (this.#tailHeld < 2 * this.#tailBytes) return;
    this.#tail = [Buffer.from(Buffer.concat(this.#tail).subarray(-this.#tailBytes))];
    this.#tailHeld = this.#tailBytes;
  }

  /** The output so far. Characters that the cut went through are left out whole. */
  finish(): CapturedOutput {
    const head = Buffer.concat(this.#head);
    const tail = Buffer.concat(this.#tail).subarray(-this.#tailBytes);
    const isTruncated = head.length + tail.length < this.#total;
    if (!isTruncated) return { text: Buffer.concat([head, tail]).toString(), isTruncated, totalBytes: this.#total };
    const from = head.subarray(0, wholeCharsEnd(head));
    const to = tail.subarray(wholeCharsStart(tail));
    const leftOut = this.#total - from.length - to.length;
    const text = `${from.toString()}\n[... ${leftOut} bytes of output left out ...]\n${to.toString()}`;
    return { text, isTruncated, totalBytes: this.#total };
  }
}

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;

/** Where a text must end so as not to end within a character of UTF-8. */
function wholeCharsEnd(bytes: Buffer): number {
  let start = bytes.length - 1;
  while (start > 0 && bytes.length - start < 4 && isContinuation(bytes[start])) start--;
  const lead = bytes[start] ?? 0;
  const expected = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  return start + expected > bytes.length ? start : bytes.length;
}

/** Where a text must begin so as not to begin within a character. Bytes that were no UTF-8 anyway are kept. */
function wholeCharsStart(bytes: Buffer): number {
  let start = 0;
  while (start < 3 && isContinuation(bytes[start])) start++;
  return isContinuation(bytes[start]) ? 0 : start;
}
