import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Checkpoint } from '../../core/checkpoint.ts';
import { StorageError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChatRunResult } from '../chat/chat-run.ts';
import type { ChatState } from '../chat/chat-state.ts';
import {
  describeConversation,
  describeEntry,
  describeSession,
  type MetadataEntry,
  pathOf,
  toTime,
} from './file-forms.ts';
import { createUniqueFolder, findSessionFolder, formatStamp } from './session-folder.ts';
import { writeFileWhole, writeJsonFile } from './write-file-whole.ts';

/** Where the files of a session go. */
export type SessionFilesOptions = {
  readonly checkpoints: CheckpointManager;
  readonly sessionId: string;
  /** The folder above the sessions' folders; default `logs`. */
  readonly root?: string;
  /** The folder itself, for a continuation. */
  readonly folder?: string;
  readonly now?: () => number;
};

/** The checkpoints of one branch, found in pages. */
const PAGE = 200;

/**
 * The files of a session for people and other programs to read. They are written from the storage, checkpoint by checkpoint, and never the
 * only copy; a file that cannot be written is a problem of the files, not of the run.
 */
export class SessionFiles {
  readonly folder: string;
  /** What could not be written. */
  readonly problems: unknown[] = [];
  /** Whether there is a folder to write to. */
  readonly #isUsable: boolean;
  readonly #checkpoints: CheckpointManager;
  readonly #createdAt: string;
  readonly #entries: MetadataEntry[];
  /** Every checkpoint of the branch has its file. */
  #isComplete = false;

  /** Opens the folder of a session, or makes one; if that fails, nothing is written, and `problems` says why. */
  static async open(options: SessionFilesOptions): Promise<SessionFiles> {
    const { checkpoints, sessionId, root = 'logs', now = Date.now } = options;
    try {
      const known = options.folder ?? (await findSessionFolder(root, sessionId));
      const folder = known ?? (await createUniqueFolder(root, `session_${formatStamp(now())}`));
      await mkdir(join(folder, 'checkpoints'), { recursive: true });
      return new SessionFiles(folder, { checkpoints, ...(await readList(folder, now)) });
    } catch (error) {
      return SessionFiles.unusable(options.folder ?? root, checkpoints, error);
    }
  }

  /** Stands for files that cannot be written: the run does not depend on them. */
  static unusable(folder: string, checkpoints: CheckpointManager, cause: unknown): SessionFiles {
    const files = new SessionFiles(folder, { checkpoints, createdAt: '', entries: [], isUsable: false });
    const error = new StorageError(`The files of the session cannot be written below ${folder}.`, { cause });
    files.problems.push(cause instanceof StorageError ? cause : error);
    return files;
  }

  private constructor(
    folder: string,
    start: SavedList & { readonly checkpoints: CheckpointManager; readonly isUsable?: boolean },
  ) {
    this.folder = folder;
    this.#checkpoints = start.checkpoints;
    this.#createdAt = start.createdAt;
    this.#entries = start.entries;
    this.#isUsable = start.isUsable ?? true;
  }

  /** Writes what a checkpoint adds, and what is missing of those before it on its branch. */
  async add(checkpoint: Checkpoint): Promise<void> {
    if (!this.#isUsable) return;
    try {
      for (const missing of await this.#findMissing(checkpoint)) await this.#write(missing);
      await this.#summarise(checkpoint);
      this.#isComplete = true;
    } catch (error) {
      this.#isComplete = false;
      this.problems.push(error);
    }
  }

  /** Notes how a run stopped. */
  async finish(result: Pick<ChatRunResult, 'failedSaves'> & { readonly error?: unknown }): Promise<void> {
    if (!this.#isUsable) return;
    const errors = [...result.failedSaves, ...('error' in result ? [result.error] : [])];
    try {
      for (const error of errors) await appendFile(join(this.folder, 'error_log.txt'), `${formatError(error)}\n`);
    } catch (error) {
      this.problems.push(error);
    }
  }

  /** A run that was cut short, or a disk that was full, left checkpoints without files. */
  async #findMissing(checkpoint: Checkpoint): Promise<Checkpoint[]> {
    const known = new Set(this.#entries.map(({ checkpoint_id }) => checkpoint_id));
    if (this.#isComplete) return known.has(checkpoint.id) ? [] : [checkpoint];
    const missing: Checkpoint[] = [];
    for (let offset = 0; ; offset += PAGE) {
      const filter = { sessionId: checkpoint.sessionId, branch: checkpoint.branch };
      const page = (await this.#checkpoints.list(filter, { limit: PAGE, offset })).checkpoints;
      missing.push(...page.filter(({ id }) => !known.has(id)));
      if (page.length < PAGE) return missing.toReversed();
    }
  }

  async #write(checkpoint: Checkpoint): Promise<void> {
    const file = this.#nameFile(checkpoint);
    await writeJsonFile(
      join(this.folder, 'checkpoints', file),
      await this.#checkpoints.exportCheckpoint(checkpoint.id),
    );
    this.#entries.push(describeEntry(checkpoint, file));
    await appendFile(join(this.folder, 'console.log'), `${formatLine(checkpoint)}\n`);
  }

  /** Two branches of a session may have the same number in the same second. */
  #nameFile({ sequence, trigger, type, header }: Checkpoint): string {
    const name = `checkpoint_${sequence}_${trigger ?? type}_${formatStamp(header.timestampMs)}`;
    const taken = new Set(this.#entries.map(({ file }) => file));
    for (let count = 1; ; count++) {
      const file = `${name}${count === 1 ? '' : `_${count}`}.json`;
      if (!taken.has(pathOf(file))) return file;
    }
  }

  async #summarise(checkpoint: Checkpoint): Promise<void> {
    const state = (await this.#checkpoints.load(checkpoint.id)) as ChatState;
    const { sessionId } = checkpoint;
    await writeJsonFile(join(this.folder, 'checkpoints_metadata.json'), {
      session_id: sessionId,
      created_at: this.#createdAt,
      checkpoint_count: this.#entries.length,
      last_checkpoint_id: checkpoint.id,
      last_checkpoint_time: toTime(checkpoint),
      checkpoints: this.#entries,
    });
    await writeJsonFile(join(this.folder, 'chat_history.json'), describeConversation(sessionId, state));
    await writeJsonFile(join(this.folder, 'session_metadata.json'), describeSession(checkpoint, state));
    await writeFileWhole(join(this.folder, 'problem_statement.txt'), `${state.chat.problem}\n`);
  }
}

type SavedList = { readonly createdAt: string; readonly entries: MetadataEntry[] };

async function readList(folder: string, now: () => number): Promise<SavedList> {
  try {
    const text = await readFile(join(folder, 'checkpoints_metadata.json'), 'utf8');
    const { created_at, checkpoints } = JSON.parse(text) as { created_at: string; checkpoints: MetadataEntry[] };
    return { createdAt: created_at, entries: checkpoints };
  } catch {
    // a new folder, or one whose first file was cut short: everything is written again
    return { createdAt: new Date(now()).toISOString(), entries: [] };
  }
}

function formatLine(checkpoint: Checkpoint): string {
  const { trigger, contextSummary = '' } = checkpoint;
  return `${toTime(checkpoint)} ${trigger} ${contextSummary}`.replaceAll('\n', ' ').trimEnd();
}

function formatError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
