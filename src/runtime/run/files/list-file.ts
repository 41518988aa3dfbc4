import { open } from 'node:fs/promises';
import { writeFileWhole } from './session-folder.ts';

type ListParts<Item> = {
  /** Fields before the list; at least one. They change only with the whole file. */
  readonly head: Readonly<Record<string, unknown>>;
  readonly items: readonly Item[];
  /** An item as it is written. */
  readonly form: (item: Item, at: number) => unknown;
  /** Fields after the list, which change with it; at least one. */
  readonly tail: Readonly<Record<string, unknown>>;
};

/** A JSON object in a file with one list that grows: what is added is written in the place of the file's tail, so it costs what it adds. */
export class ListFile<Item> {
  readonly #path: string;
  readonly #name: string;
  /** What the file holds, and where in it the items end; undefined until it was written whole. */
  #written: { readonly count: number; readonly last: Item | undefined; readonly endBytes: number } | undefined;

  constructor(path: string, name: string) {
    this.#path = path;
    this.#name = name;
  }

  /** Writes what was added; the whole file the first time, if the list was edited, and after it could not be written. */
  async write(parts: ListParts<Item>): Promise<void> {
    const { items } = parts;
    const before = this.#written;
    this.#written = undefined;
    const isGrown = before !== undefined && items[before.count - 1] === before.last;
    const endBytes = isGrown ? await this.#append(before, parts) : await this.#writeWhole(parts);
    this.#written = { count: items.length, last: items.at(-1), endBytes };
  }

  /** A reader sees the old or the new file. */
  async #writeWhole({ head, items, form, tail }: ListParts<Item>): Promise<number> {
    const before = `${JSON.stringify(head).slice(0, -1)},\n${JSON.stringify(this.#name)}: [\n${formatItems(items.map(form))}`;
    await writeFileWhole(this.#path, before + formatTail(tail));
    return Buffer.byteLength(before);
  }

  async #append(
    { count, endBytes }: { readonly count: number; readonly endBytes: number },
    { items, form, tail }: ListParts<Item>,
  ): Promise<number> {
    const more = items.slice(count).map((item, at) => form(item, count + at));
    const added = `${more.length === 0 || count === 0 ? '' : ',\n'}${formatItems(more)}`;
    const text = Buffer.from(added + formatTail(tail));
    const file = await open(this.#path, 'r+');
    try {
      await file.write(text, 0, text.length, endBytes);
      await file.truncate(endBytes + text.length);
    } finally {
      await file.close();
    }
    return endBytes + Buffer.byteLength(added);
  }
}

function formatItems(items: readonly unknown[]): string {
  return items.map((item) => JSON.stringify(item)).join(',\n');
}

function formatTail(tail: Readonly<Record<string, unknown>>): string {
  return `\n],\n${JSON.stringify(tail).slice(1)}\n`;
}
