import { appendFile, readFile, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { StorageError } from '../../../core/errors.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import { eachCheckpoint } from '../../../manager/branch/history.ts';
import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { makeFolder } from '../../../storage/make-folder.ts';
import type { ChatMessage } from '../../agent/chat-message.ts';
import {
  type Conversation,
  describeEntry,
  describeMessage,
  describeSession,
  formatLines,
  type MetadataEntry,
  messageOf,
  toTime,
} from './file-forms.ts';
import { ListFile } from './list-file.ts';
import {
  createUniqueFolder,
  findSessionFolder,
  formatStamp,
  readSessionId,
  removeUnfinished,
  writeFileWhole,
  writeJsonFile,
} from './session-folder.ts';

/** Which files a run writes. */
export type FilesOptions = {
  /** The folder for the sessions' files, one folder for each; default `logs`. `false` switches them off. */
  readonly logs?: string | false | undefined;
  /** Whether every checkpoint is written with its whole state, too, so that it can be continued from its file. Default: if `logs` names a folder. */
  readonly checkpointFiles?: boolean | undefined;
};

/** Whose files they are, and what they tell of. */
type Subject = {
  readonly manager: CheckpointManager;
  readonly sessionId: string;
  /** As it is now. */
  readonly conversation: () => Conversation;
};

const DEFAULT_ROOT = 'logs';

/** Opens the files of a session, as far as a run wants any. */
export async function openSessionFiles(subject: Subject, options: FilesOptions): Promise<SessionFiles | undefined> {
  const { logs: root = DEFAULT_ROOT } = options;
  if (root === false) return undefined;
  const find = async () => (await findSessionFolder(root, subject.sessionId)) ?? (await newFolder(root, 'session'));
  return SessionFiles.open({ ...subject, ...options }, root, find);
}

async function newFolder(parent: string, kind: 'session' | 'continuation'): Promise<string> {
  return createUniqueFolder(parent, `${kind}_${formatStamp(Date.now())}`);
}

/** What a continuation goes on from: a checkpoint, and the file that it was read from. */
type ContinuationSource = { readonly origin: Checkpoint; readonly file?: string | undefined };

/** How long a continuation goes on, and where its folder goes instead of into that of its session. */
type ContinuationOptions = FilesOptions & { readonly rounds: number; readonly outputRoot?: string | undefined };

/** Makes a folder for a continuation, which names its origin, as far as a run wants any files. */
export async function openContinuationFiles(
  subject: Subject & ContinuationSource,
  options: ContinuationOptions,
): Promise<SessionFiles | undefined> {
  const { logs = DEFAULT_ROOT, outputRoot } = options;
  if (logs === false && outputRoot === undefined) return undefined;
  const root = logs === false ? '.' : logs;
  const make = () => makeContinuation(subject, { ...options, root });
  return SessionFiles.open({ ...subject, ...options }, outputRoot ?? root, make);
}

async function makeContinuation(
  { origin, file, sessionId }: Subject & ContinuationSource,
  { rounds, root, outputRoot }: ContinuationOptions & { readonly root: string },
): Promise<string> {
  const known = (await folderOfFile(file)) ?? (await findSessionFolder(root, origin.sessionId));
  const folder = await newFolder(outputRoot ?? known ?? (await newFolder(root, 'session')), 'continuation');
  await writeJsonFile(join(folder, 'continuation_metadata.json'), {
    continuation_started_at: new Date().toISOString(),
    original_session_id: origin.sessionId,
    original_session_dir: known ?? null,
    original_checkpoint_file: file ?? null,
    original_checkpoint_id: origin.id,
    original_round: (origin.metadata as { round?: unknown } | undefined)?.round ?? null,
    max_additional_rounds: rounds,
    session_id: sessionId,
  });
  return folder;
}

/** The session's folder that a checkpoint file lies in, `<session>/checkpoints/<file>`; undefined if it lies elsewhere. */
async function folderOfFile(file: string | undefined): Promise<string | undefined> {
  if (file === undefined || basename(dirname(file)) !== 'checkpoints') return undefined;
  const folder = dirname(dirname(file));
  return (await readSessionId(folder)) === undefined ? undefined : folder;
}

/**
 * The files of a session for people and other programs to read. They follow the storage, checkpoint by checkpoint, and are never the only
 * copy; each checkpoint costs what it adds. A file that cannot be written is a problem of the files, not of the run.
 */
export class SessionFiles {
  readonly folder: string;
  /** Whether there is a folder to write to. */
  readonly isUsable: boolean;
  /** What could not be written. */
  readonly problems: unknown[] = [];
  readonly #subject: Subject;
  readonly #hasStates: boolean;
  readonly #saved: SavedList;
  readonly #list: ListFile<MetadataEntry>;
  readonly #history: ListFile<ChatMessage>;
  /** Every checkpoint of the branch has its entry. */
  #isComplete = false;
  #last: { readonly checkpoint: Checkpoint; readonly conversation: Conversation } | undefined;

  /** Opens the folder that is found or made; if that fails, nothing is written, and `problems` says why: the run does not depend on them. */
  static async open(options: Subject & FilesOptions, root: string, find: () => Promise<string>): Promise<SessionFiles> {
    const { logs, checkpointFiles: hasStates = logs !== undefined } = options;
    try {
      const folder = await find();
      const states = join(folder, 'checkpoints');
      if (hasStates) makeFolder(states);
      for (const one of [folder, states]) await removeUnfinished(one);
      return new SessionFiles(options, { folder, hasStates, saved: await readList(folder) });
    } catch (cause) {
      const files = new SessionFiles(options, { folder: root, hasStates });
      const error = new StorageError(`The files of the session cannot be written below ${root}.`, { cause });
      files.problems.push(cause instanceof StorageError ? cause : error);
      return files;
    }
  }

  private constructor(
    subject: Subject,
    { folder, hasStates, saved }: { folder: string; hasStates: boolean; saved?: SavedList },
  ) {
    this.#subject = subject;
    this.folder = folder;
    this.isUsable = saved !== undefined;
    this.#hasStates = hasStates;
    this.#saved = saved ?? { createdAt: '', entries: [] };
    this.#list = new ListFile(join(folder, LIST_FILE), 'checkpoints');
    this.#history = new ListFile(join(folder, 'chat_history.json'), 'messages');
  }

  /** Writes what a checkpoint adds, and what is missing of those before it on its branch. */
  async add(checkpoint: Checkpoint): Promise<void> {
    if (!this.isUsable) return;
    const isFirst = this.#last === undefined;
    const conversation = this.#subject.conversation();
    this.#last = { checkpoint, conversation };
    try {
      await this.#addEntries(checkpoint, conversation);
      await this.#addMessages(conversation);
      if (isFirst) await this.#describe();
    } catch (error) {
      this.#isComplete = false;
      this.problems.push(error);
    }
  }

  /** Notes how a run stopped. */
  async finish(result: { readonly failedSaves: readonly unknown[]; readonly error?: unknown }): Promise<void> {
    if (!this.isUsable) return;
    const errors = [...result.failedSaves, ...('error' in result ? [result.error] : [])];
    try {
      await this.#describe();
      for (const error of errors)
        await appendFile(join(this.folder, 'error_log.txt'), `${this.#copy(formatError(error))}\n`);
    } catch (error) {
      this.problems.push(error);
    }
  }

  /** Settings, models, tools and totals: as they are when a run begins and ends. */
  async #describe(): Promise<void> {
    if (this.#last === undefined) return;
    const { checkpoint, conversation } = this.#last;
    const about = this.#copy(describeSession(checkpoint, conversation));
    await writeJsonFile(join(this.folder, 'session_metadata.json'), about);
    await writeFileWhole(join(this.folder, 'problem_statement.txt'), `${this.#copy(conversation.problem)}\n`);
  }

  async #addEntries(checkpoint: Checkpoint, conversation: Conversation): Promise<void> {
    const { createdAt, entries } = this.#saved;
    for (const one of await this.#findMissing(checkpoint)) {
      const file = this.#hasStates ? await this.#writeState(one) : null;
      const lines = formatLines(one, this.#copy(messageOf(one, conversation)));
      await appendFile(join(this.folder, 'console.log'), lines);
      entries.push(describeEntry(one, file));
    }
    await this.#list.write({
      head: { session_id: this.#subject.sessionId, created_at: createdAt },
      items: entries,
      form: (entry) => entry,
      tail: {
        checkpoint_count: entries.length,
        last_checkpoint_id: checkpoint.id,
        last_checkpoint_time: toTime(checkpoint),
      },
    });
    this.#isComplete = true;
  }

  /** A run that was cut short, or a disk that was full, left checkpoints without entries. */
  async #findMissing(checkpoint: Checkpoint): Promise<Checkpoint[]> {
    const { entries } = this.#saved;
    if (this.#isComplete) return entries.at(-1)?.checkpoint_id === checkpoint.id ? [] : [checkpoint];
    const known = new Set(entries.map(({ checkpoint_id }) => checkpoint_id));
    const missing: Checkpoint[] = [];
    const { sessionId, branch } = checkpoint;
    for await (const one of eachCheckpoint(this.#subject.manager, { sessionId, branch }, 'oldest'))
      if (!known.has(one.id)) missing.push(one);
    return missing;
  }

  /** The path of the file that holds a whole checkpoint. */
  async #writeState({ id, sequence, trigger, type, header }: Checkpoint): Promise<string> {
    const name = `checkpoints/checkpoint_${sequence}_${trigger ?? type}_${formatStamp(header.timestampMs)}`;
    // Two branches of a session may have the same number in the same second.
    const namesakes = this.#saved.entries.filter(({ file }) => file?.startsWith(name)).length;
    const file = `${name}${namesakes === 0 ? '' : `_${namesakes + 1}`}.json`;
    await writeJsonFile(join(this.folder, file), await this.#subject.manager.exportCheckpoint(id));
    return file;
  }

  async #addMessages({ problem, initiator, round, end, messages }: Conversation): Promise<void> {
    await this.#history.write({
      head: { session_id: this.#subject.sessionId, problem: this.#copy(problem) },
      items: messages,
      form: (message, at) => this.#copy(describeMessage(message, at, initiator)),
      tail: { rounds: round, end },
    });
  }

  /** Files hold no more secrets than checkpoints do. */
  #copy<Value>(value: Value): Value {
    return value === undefined ? value : this.#subject.manager.engine.codec.copy(value);
  }
}

const LIST_FILE = 'checkpoints_metadata.json';

type SavedList = { readonly createdAt: string; readonly entries: MetadataEntry[] };

async function readList(folder: string): Promise<SavedList> {
  try {
    const text = await readFile(join(folder, LIST_FILE), 'utf8');
    const { created_at, checkpoints } = JSON.parse(text) as { created_at: string; checkpoints: MetadataEntry[] };
    return { createdAt: created_at, entries: checkpoints };
  } catch {
    // a new folder, or one whose list was cut short: everything is written again
    await rm(join(folder, 'console.log'), { force: true });
    return { createdAt: new Date().toISOString(), entries: [] };
  }
}

function formatError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
