import { randomBytes } from 'node:crypto';
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CorruptError, messageOf } from '../../core/errors.ts';
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
    const runs = this.#runs.readValues<BegunRun>();
    const found = runs.findLast((run) => run.sessionId === sessionId && run.at === undefined);
    return found && { file: found.file, registry: found.registry };
  }

  /** The last run whose file names another storage: of this session, or of any. */
  findElsewhere(sessionId: string | undefined): BegunRun | undefined {
    const runs = this.#runs.readValues<BegunRun>();
    return runs.findLast((run) => run.at !== undefined && run.sessionId === (sessionId ?? run.sessionId));
  }
}

/** How to take back a part of what was done: go back to a branch, or delete or make a name. Each fails if it was changed since. */
export type UndoStep =
  | { readonly step: 'switch'; readonly kind: 'branch'; readonly name: string }
  | {
      readonly step: 'delete' | 'make';
      readonly kind: 'branch' | 'tag';
      readonly name: string;
      readonly target: CheckpointId;
    };

/** One thing that this person did to branches and tags of a storage. Kept on this machine. */
export type Operation = {
  readonly id: string;
  readonly at: string;
  readonly sessionId: string;
  readonly summary: string;
  readonly undo: readonly UndoStep[];
};

async function openJournal(context: OwnFolder): Promise<LinesFile> {
  return new LinesFile(join(await context.stateFolder(), 'operations.jsonl'));
}

/** Notes an operation, which was done, so that it can be undone, or with its id how else one is undone. Returns its id. */
export async function noteOperation(
  context: OwnFolder & { say(text: string): void },
  operation: Pick<Operation, 'sessionId' | 'summary' | 'undo'>,
  id = randomBytes(4).toString('hex'),
): Promise<string> {
  const whole: Operation = { id, at: new Date().toISOString(), ...operation };
  try {
    (await openJournal(context)).add(JSON.stringify(whole));
  } catch (error) {
    context.say(`It was done, and "savestate undo" cannot take it back: ${messageOf(error)}`);
  }
  return id;
}

export async function noteUndone(context: OwnFolder, id: string): Promise<void> {
  (await openJournal(context)).add(JSON.stringify({ undone: id }));
}

/** Every operation, oldest first, and whether it was undone. */
export async function readOperations(context: OwnFolder): Promise<(Operation & { readonly isUndone: boolean })[]> {
  const lines = (await openJournal(context)).readValues<Operation | { readonly undone: string }>();
  const undone = new Set(lines.flatMap((line) => ('undone' in line ? [line.undone] : [])));
  const operations = new Map(lines.flatMap((line) => ('undone' in line ? [] : [[line.id, line]])));
  return [...operations.values()].map((operation) => ({ ...operation, isUndone: undone.has(operation.id) }));
}

/** What was found out about a checkpoint. */
export type BisectVerdict = 'good' | 'bad' | 'skip';

/** A search under way, or its end. It is remembered between commands. */
export type BisectState = {
  readonly goodId?: CheckpointId;
  readonly badId?: CheckpointId;
  readonly verdicts: readonly (readonly [CheckpointId, BisectVerdict])[];
  readonly firstBadId?: CheckpointId;
};

async function findBisectPath(context: OwnFolder): Promise<string> {
  return join(await context.stateFolder(), 'bisect.json');
}

export async function readBisect(context: OwnFolder): Promise<BisectState | undefined> {
  const path = await findBisectPath(context);
  if (!existsSync(path)) return undefined;
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as BisectState;
  } catch (cause) {
    const advice = 'Begin anew: savestate bisect reset.';
    throw new CorruptError(`The search that ${path} remembers cannot be read. ${advice}`, { cause });
  }
}

/** What the last search found. */
export async function readFirstBad(context: OwnFolder): Promise<CheckpointId | undefined> {
  const id = (await readBisect(context))?.firstBadId;
  return id !== undefined && isCheckpointId(id) ? id : undefined;
}

export async function writeBisect(context: OwnFolder, state: BisectState): Promise<void> {
  const path = await findBisectPath(context);
  makeFolder(dirname(path));
  writeFileSync(path, JSON.stringify(state));
}

export async function removeBisect(context: OwnFolder): Promise<void> {
  rmSync(await findBisectPath(context), { force: true });
}
