import { open } from 'node:fs/promises';
import { writeFileWhole } from './session-folder.ts';

/** What a list file holds besides its list. */
type ListParts = {
  /** The name of the list. */
  readonly name: string;
  /** Fields before the list, which stay as they are; at least one. */
  readonly head: Readonly<Record<string, unknown>>;
  readonly items: readonly unknown[];
  /** Fields after the list, which change with it; at least one. */
  readonly tail: Readonly<Record<string, unknown>>;
};

/** A JSON object in a file with one list that grows: what is added is written in the place of the file's tail, so it costs what it adds. */
export class ListFile {
  readonly #path: string;
  /** Where in the file the items end. */
  #endBytes: number;
  #isEmpty: boolean;

  private constructor(path: string, endBytes: number, isEmpty: boolean) {
    this.#path = path;
    this.#endBytes = endBytes;
    this.#isEmpty = isEmpty;
  }

  /** Writes the whole file; a reader sees the old or the new one. */
  static async create(path: string, { name, head, items, tail }: ListParts): Promise<ListFile> {
    const before = `${JSON.stringify(head).slice(0, -1)},\n${JSON.stringify(name)}: [\n${formatItems(items)}`;
    await writeFileWhole(path, before + formatTail(tail));
    return new ListFile(path, Buffer.byteLength(before), items.length === 0);
  }

  /** Adds items, and puts another tail after them. */
  async append(items: readonly unknown[], tail: ListParts['tail']): Promise<void> {
    const added = `${items.length === 0 || this.#isEmpty ? '' : ',\n'}${formatItems(items)}`;
    const text = Buffer.from(added + formatTail(tail));
    const file = await open(this.#path, 'r+');
    try {
      await file.write(text, 0, text.length, this.#endBytes);
      await file.truncate(this.#endBytes + text.length);
    } finally {
      await file.close();
    }
    this.#endBytes += Buffer.byteLength(added);
    this.#isEmpty &&= items.length === 0;
  }
}

function formatItems(items: readonly unknown[]): string {
  return items.map((item) => JSON.stringify(item)).join(',\n');
}

function formatTail(tail: ListParts['tail']): string {
  return `\n],\n${JSON.stringify(tail).slice(1)}\n`;
}
