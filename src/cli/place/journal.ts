import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { LinesFile } from './lines-file.ts';
import type { OwnFolder } from './state-folder.ts';

/** How to take back a part of what was done. Each fails if it was changed since. */
export type UndoStep =
  | { readonly step: 'delete-branch'; readonly name: string; readonly headId: string }
  | { readonly step: 'make-branch'; readonly name: string; readonly headId: string }
  | { readonly step: 'switch'; readonly name: string }
  | { readonly step: 'delete-tag'; readonly name: string; readonly checkpointId: string }
  | { readonly step: 'make-tag'; readonly name: string; readonly checkpointId: string };

/** One thing that was done to names. */
export type Operation = {
  readonly id: string;
  readonly at: string;
  readonly sessionId: string;
  readonly summary: string;
  readonly undo: readonly UndoStep[];
};

type Line = Operation | { readonly undone: string };

/** What this person did to branches and tags of a storage, so that it can be undone. Kept on this machine. */
export class Journal {
  readonly #lines: LinesFile<Line>;

  constructor(folder: string) {
    this.#lines = new LinesFile(join(folder, 'operations.jsonl'));
  }

  static async open(context: OwnFolder): Promise<Journal> {
    return new Journal(await context.stateFolder());
  }

  add(operation: Pick<Operation, 'sessionId' | 'summary' | 'undo'>): Operation {
    const whole = { id: randomBytes(4).toString('hex'), at: new Date().toISOString(), ...operation };
    this.#lines.add(whole);
    return whole;
  }

  markUndone(id: string): void {
    this.#lines.add({ undone: id });
  }

  /** Every operation, oldest first, and whether it was undone. */
  read(): { readonly operation: Operation; readonly isUndone: boolean }[] {
    const lines = this.#lines.read();
    const undone = new Set(lines.flatMap((line) => ('undone' in line ? [line.undone] : [])));
    return lines.flatMap((line) => ('undone' in line ? [] : [{ operation: line, isUndone: undone.has(line.id) }]));
  }
}
