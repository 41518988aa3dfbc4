import { appendFile, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Checkpoint } from '../../core/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { ChatRunResult } from '../chat/chat-run.ts';
import type { ChatState } from '../chat/chat-state.ts';
import { describeConversation, describeEntry, describeSession, type MetadataEntry, toTime } from './file-forms.ts';
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
  readonly #checkpoints: CheckpointManager;
  readonly #createdAt: string;
  readonly #entries: MetadataEntry[];
  #written = 0;

  /** Opens the folder of a session, or makes one. */
  static async open(options: SessionFilesOptions): Promise<SessionFiles> {
    const { checkpoints, sessionId, root = 'logs', now = Date.now } = options;
    const known = options.folder ?? (await findSessionFolder(root, sessionId));
    const folder = known ?? (await createUniqueFolder(root, `session_${formatStamp(now())}`));
    await mkdir(join(folder, 'checkpoints'), { recursive: true });
    return new SessionFiles(folder, { checkpoints, createdAtMs: now(), entries: await readEntries(folder) });
  }

  private constructor(
    folder: string,
    start: { checkpoints: CheckpointManager; createdAtMs: number; entries: MetadataEntry[] },
  ) {
    this.folder = folder;
    this.#checkpoints = start.checkpoints;
    this.#createdAt = new Date(start.createdAtMs).toISOString();
    this.#entries = start.entries;
  }

  /** Writes what a checkpoint adds, and what is missing of those before it on its branch. */
  async add(checkpoint: Checkpoint): Promise<void> {
    try {
      for (const missing of await this.#findMissing(checkpoint)) await this.#write(missing);
      await this.#summarise(checkpoint);
    } catch (error) {
      this.problems.push(error);
    }
  }

  /** Notes how a run stopped. */
  async finish(result: Pick<ChatRunResult, 'failedSaves'> & { readonly error?: unknown }): Promise<void> {
    const errors = [...result.failedSaves, ...('error' in result ? [result.error] : [])];
    try {
      for (const error of errors) await appendFile(join(this.folder, 'error_log.txt'), `${formatError(error)}\n`);
    } catch (error) {
      this.problems.push(error);
    }
  }

  /** A run that was cut short left its last checkpoints without files. */
  async #findMissing(checkpoint: Checkpoint): Promise<Checkpoint[]> {
    const known = new Set(this.#entries.map(({ checkpoint_id }) => checkpoint_id));
    if (this.#written > 0) return known.has(checkpoint.id) ? [] : [checkpoint];
    const missing: Checkpoint[] = [];
    for (let offset = 0; ; offset += PAGE) {
      const filter = { sessionId: checkpoint.sessionId, branch: checkpoint.branch };
      const page = (await this.#checkpoints.list(filter, { limit: PAGE, offset })).checkpoints;
      missing.push(...page.filter(({ id }) => !known.has(id)));
      if (page.length < PAGE) return missing.toReversed();
    }
  }

  async #write(checkpoint: Checkpoint): Promise<void> {
    const stamp = formatStamp(checkpoint.header.timestampMs);
    const file = `checkpoint_${checkpoint.sequence}_${checkpoint.trigger ?? checkpoint.type}_${stamp}.json`;
    await writeJsonFile(
      join(this.folder, 'checkpoints', file),
      await this.#checkpoints.exportCheckpoint(checkpoint.id),
    );
    this.#entries.push(describeEntry(checkpoint, file));
    this.#written++;
    await appendFile(join(this.folder, 'console.log'), `${formatLine(checkpoint)}\n`);
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

async function readEntries(folder: string): Promise<MetadataEntry[]> {
  try {
    const text = await readFile(join(folder, 'checkpoints_metadata.json'), 'utf8');
    return (JSON.parse(text) as { checkpoints: MetadataEntry[] }).checkpoints;
  } catch {
    return []; // a new folder, or one whose first file was cut short: everything is written again
  }
}

function formatLine(checkpoint: Checkpoint): string {
  const { trigger, contextSummary = '' } = checkpoint;
  return `${toTime(checkpoint)} ${trigger} ${contextSummary}`.replaceAll('\n', ' ').trimEnd();
}

function formatError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
