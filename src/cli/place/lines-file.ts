import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { makeFolder } from '../../storage/make-folder.ts';

/** Values that are added one by one and survive the process, a line of JSON each. */
export class LinesFile<Value> {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  add(value: Value): void {
    makeFolder(dirname(this.#path));
    appendFileSync(this.#path, `${JSON.stringify(value)}\n`, { mode: 0o600 });
  }

  /** Oldest first. A line that a crash cut off is left out. */
  read(): Value[] {
    const text = existsSync(this.#path) ? readFileSync(this.#path, 'utf8') : '';
    return text.split('\n').flatMap((line): Value[] => {
      try {
        return line === '' ? [] : [JSON.parse(line) as Value];
      } catch {
        return [];
      }
    });
  }
}
