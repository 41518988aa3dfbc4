import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CorruptError } from '../../core/errors.ts';
import { type CheckpointId, isCheckpointId } from '../../core/record/id.ts';
import { makeFolder } from '../../storage/make-folder.ts';

/** What was found out about a checkpoint. */
export type Verdict = 'good' | 'bad' | 'skip';

/** A search under way, or its end. */
export type BisectState = {
  readonly goodId?: CheckpointId;
  readonly badId?: CheckpointId;
  readonly verdicts: readonly (readonly [CheckpointId, Verdict])[];
  readonly firstBadId?: CheckpointId;
};

/** Remembers a search between commands. */
export class BisectFile {
  readonly #folder: string;
  readonly #path: string;

  constructor(folder: string) {
    this.#folder = folder;
    this.#path = join(folder, 'bisect.json');
  }

  read(): BisectState | undefined {
    if (!existsSync(this.#path)) return undefined;
    try {
      return JSON.parse(readFileSync(this.#path, 'utf8')) as BisectState;
    } catch (cause) {
      const advice = 'Begin anew: savestate bisect reset.';
      throw new CorruptError(`The search that ${this.#path} remembers cannot be read. ${advice}`, { cause });
    }
  }

  write(state: BisectState): void {
    makeFolder(this.#folder);
    writeFileSync(this.#path, JSON.stringify(state));
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }
}

/** What the last search found, for the revision `first-bad`. */
export function readFirstBad(folder: string): CheckpointId | undefined {
  const id = new BisectFile(folder).read()?.firstBadId;
  return id !== undefined && isCheckpointId(id) ? id : undefined;
}
