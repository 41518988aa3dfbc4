import { randomBytes } from 'node:crypto';
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CorruptError } from '../../core/errors.ts';
import { type CheckpointId, isCheckpointId } from '../../core/record/id.ts';
import { makeFolder } from '../../storage/make-folder.ts';

/** Who knows the folder of what the command line itself remembers about a storage. */
type OwnFolder = { stateFolder(): Promise<string> };

/** Lines that are added one by one and survive the process. */
class LinesFile {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  add(line: string): void {
    makeFolder(dirname(this.#path));
    appendFileSync(this.#path, `${line}\n`, { mode: 0o600 });
  }

  /** Oldest first. */
  read(): string[] {
    const text = existsSync(this.#path) ? readFileSync(this.#path, 'utf8') : '';
    return text.split('\n').filter((line) => line !== '');
  }

  /** Of lines that are JSON; one that a crash cut off is left out. */
  readValues<Value>(): Value[] {
    return this.read().flatMap((line): Value[] => {
      try {
        return [JSON.parse(line) as Value];
      } catch {
        return [];
      }
    });
  }
}

/** What was typed in the REPL before, also in other sessions. */
export async function openHistory(context: OwnFolder): Promise<LinesFile> {
  return new LinesFile(join(await context.stateFolder(), 'history'));
}

/** Where the definition of a workflow is, and the module with its code. */
export type WorkflowPlace = { readonly file: string; readonly registry: string | undefined };

/** A workflow that was run; with `at` its file names another storage, and it is when that was. */
type BegunRun = WorkflowPlace & { readonly sessionId: string; readonly at?: string };

/**
 * Which workflow files this person ran here, by session. It is what `continue` goes by: what a checkpoint says of files and modules may
 * be somebody else's word, so nothing is loaded because of it.
 */
export class BegunRuns {
  readonly #runs: LinesFile;

  constructor(folder: string) {
    this.#runs = new LinesFile(join(folder, 'workflows.jsonl'));
  }

  static async open(context: OwnFolder): Promise<BegunRuns> {
    return new BegunRuns(await context.stateFolder());
  }

  add(sessionId: string, place: WorkflowPlace): void {
    const found = this.find(sessionId);
    if (found?.file === place.file && found.registry === place.registry) return;
    this.#runs.add(JSON.stringify({ sessionId, ...place }));
  }

  /** Notes a run of a workflow whose file names another storage. */
  addElsewhere(sessionId: string, place: WorkflowPlace): void {
    this.#runs.add(JSON.stringify({ sessionId, ...place, at: new Date().toISOString() }));
  }

  find(sessionId: string): WorkflowPlace | undefined {
    const found = this.#read().findLast((run) => run.sessionId === sessionId && run.at === undefined);
    return found === undefined ? undefined : { file: found.file, registry: found.registry };
  }

  /** The last run whose file names another storage: of this session, or of any. */
  findElsewhere(sessionId: string | undefined): BegunRun | undefined {
    return this.#read().findLast((run) => run.at !== undefined && run.sessionId === (sessionId ?? run.sessionId));
  }

  #read(): BegunRun[] {
    return this.#runs.readValues<BegunRun>();
  }
}

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

/** What this person did to branches and tags of a storage, so that it can be undone. Kept on this machine. */
export class Journal {
  readonly #lines: LinesFile;

  private constructor(folder: string) {
    this.#lines = new LinesFile(join(folder, 'operations.jsonl'));
  }

  static async open(context: OwnFolder): Promise<Journal> {
    return new Journal(await context.stateFolder());
  }

  /** Notes an operation, or with its id how else one is undone. Returns its id. */
  add(operation: Pick<Operation, 'sessionId' | 'summary' | 'undo'>, id = randomBytes(4).toString('hex')): string {
    const whole: Operation = { id, at: new Date().toISOString(), ...operation };
    this.#lines.add(JSON.stringify(whole));
    return id;
  }

  markUndone(id: string): void {
    this.#lines.add(JSON.stringify({ undone: id }));
  }

  /** Every operation, oldest first, and whether it was undone. */
  read(): (Operation & { readonly isUndone: boolean })[] {
    const lines = this.#lines.readValues<Operation | { readonly undone: string }>();
    const undone = new Set(lines.flatMap((line) => ('undone' in line ? [line.undone] : [])));
    const operations = new Map(lines.flatMap((line) => ('undone' in line ? [] : [[line.id, line]])));
    return [...operations.values()].map((operation) => ({ ...operation, isUndone: undone.has(operation.id) }));
  }
}

/** What was found out about a checkpoint. */
export type BisectVerdict = 'good' | 'bad' | 'skip';

/** A search under way, or its end. */
export type BisectState = {
  readonly goodId?: CheckpointId;
  readonly badId?: CheckpointId;
  readonly verdicts: readonly (readonly [CheckpointId, BisectVerdict])[];
  readonly firstBadId?: CheckpointId;
};

/** Remembers a search between commands. */
export class BisectFile {
  readonly #path: string;

  private constructor(folder: string) {
    this.#path = join(folder, 'bisect.json');
  }

  static async open(context: OwnFolder): Promise<BisectFile> {
    return new BisectFile(await context.stateFolder());
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

  /** What the last search found. */
  readFirstBad(): CheckpointId | undefined {
    const id = this.read()?.firstBadId;
    return id !== undefined && isCheckpointId(id) ? id : undefined;
  }

  write(state: BisectState): void {
    makeFolder(dirname(this.#path));
    writeFileSync(this.#path, JSON.stringify(state));
  }

  remove(): void {
    rmSync(this.#path, { force: true });
  }
}
