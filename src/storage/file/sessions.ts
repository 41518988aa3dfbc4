import { randomUUID } from 'node:crypto';
import { CorruptError, StorageError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { mapBounded } from '../../core/time/bounded.ts';
import type { DurableFiles } from './durable-files.ts';
import { type FileSystem, hasFileCode } from './file-system.ts';
import {
  encodeSessionId,
  entryName,
  formatEntry,
  formatOpening,
  type LogContent,
  type LogEntry,
  OPENING_NAME,
  parseEntry,
  parseEntryName,
  parseOpening,
  type SessionOpening,
} from './log-entry.ts';
import { type LogRow, SessionLog } from './session-log.ts';

// Enough to keep libuv's four threads busy, few enough to stay far from any limit of open files.
const PARALLEL_READS = 16;
const PARALLEL_WRITES = 8;
// Sessions are not deleted and made again this often while one of them is read.
const MAX_RELOADS = 20;

type FoundRow = { readonly log: SessionLog; readonly row: LogRow };

/** All logs that can be read, in the order of session ids, and the first damage met: of an entry, or of a session left out. */
type Survey = { readonly logs: readonly SessionLog[]; readonly damage: CorruptError | undefined };

/** The logs of all sessions: loads each when first asked for, and catches up with what other processes wrote since. */
export class Sessions {
  readonly #files: DurableFiles;
  readonly #fileSystem: FileSystem;
  readonly #folder: string;
  /** By the name of their folder. A damaged one is read again each time: somebody may restore the file. */
  readonly #logs = new Map<string, SessionLog>();
  /** Which session a checkpoint is in; a hint that is checked on use. */
  readonly #homes = new Map<CheckpointId, SessionId>();

  constructor(files: DurableFiles, folder: string) {
    this.#files = files;
    this.#fileSystem = files.fileSystem;
    this.#folder = folder;
  }

  /** The log of a session as it is now; `undefined` if there is none. */
  async get(sessionId: string): Promise<SessionLog | undefined> {
    return this.read(encodeSessionId(sessionId));
  }

  /** Reads all logs. Damage of one session never hides another; who needs all to be whole looks at `damage`. */
  async survey(): Promise<Survey> {
    const { found, damage } = await this.#readEach((name) => this.read(name));
    const logs = found.sort((a, b) => (a.sessionId < b.sessionId ? -1 : 1));
    return { logs, damage: damage ?? logs.flatMap(({ damages }) => damages)[0] };
  }

  /** The ids of all sessions whose opening can be read, in order; reads no logs. */
  async ids(): Promise<SessionId[]> {
    const { found } = await this.#readEach((name) => this.#readOpening(name));
    return found.map(({ sessionId }) => sessionId).sort();
  }

  /** Reads something of every session; leaves out those where it is damaged, and tells the first such damage. */
  async #readEach<T>(read: (name: string) => Promise<T | undefined>) {
    let damage: CorruptError | undefined;
    const readOrNote = (name: string): Promise<T | undefined> =>
      read(name).catch((error: unknown) => {
        if (!(error instanceof CorruptError)) throw error;
        damage ??= error;
        return undefined;
      });
    const entries = (await this.#fileSystem.readFolder(this.#folder)) ?? [];
    const names = entries.filter(({ kind }) => kind === 'folder').map(({ name }) => name);
    const results = await mapBounded(names, PARALLEL_READS, readOrNote);
    return { found: results.filter((result) => result !== undefined), damage };
  }

  /** Finds a checkpoint, in its session if that is known, else in all. Damage elsewhere matters only if it is not found. */
  async find(id: CheckpointId): Promise<FoundRow | undefined> {
    const home = this.#homes.get(id);
    const known = home === undefined ? undefined : await this.get(home);
    if (known?.rows.has(id) === true) return rowIn(known, id);
    const { logs, damage } = await this.survey();
    const log = logs.find(({ rows }) => rows.has(id));
    if (log === undefined && damage !== undefined) throw damage;
    return log && rowIn(log, id);
  }

  /** Whether a session that was read already holds the checkpoint. */
  isKnown(id: CheckpointId): boolean {
    const home = this.#homes.get(id);
    return home !== undefined && this.#logs.get(encodeSessionId(home))?.rows.has(id) === true;
  }

  /** The log in a folder of this name. */
  async read(name: string): Promise<SessionLog | undefined> {
    const folder = `${this.#folder}/${name}`;
    // A log that was replaced while it was read is read again: each round means that a session was deleted meanwhile.
    for (let round = 0; round < MAX_RELOADS; round++) {
      const opening = await this.#readOpening(name);
      if (opening === undefined) {
        this.#logs.delete(name);
        return undefined;
      }
      const known = this.#logs.get(name);
      const log = known?.incarnation === opening.incarnation ? known : new SessionLog(opening, folder);
      if (!(await this.#catchUp(log, log === known ? 0 : await this.#lastNumber(folder)))) continue;
      if (log.damages.length === 0) this.#logs.set(name, log);
      else if (!(await this.#isDamaged(log, name))) continue;
      return log;
    }
    throw new CorruptError(`${folder} mixes entries of a session with those of a deleted one of the same name.`, {
      details: { path: folder },
    });
  }

  /** False if what seems to be damage is another session in the place of this one. */
  async #isDamaged(log: SessionLog, name: string): Promise<boolean> {
    this.#logs.delete(name);
    return (await this.#readOpening(name))?.incarnation === log.incarnation;
  }

  async #readOpening(name: string): Promise<SessionOpening | undefined> {
    const path = `${this.#folder}/${name}/${OPENING_NAME}`;
    for (;;) {
      const bytes = await this.#fileSystem.readFile(path);
      if (bytes !== undefined) return checkOpening(parseOpening(bytes, path), name, path);
      // Folders appear with their opening in them, and go as a whole: if it is in the list, the session is a moment old.
      const entries = await this.#fileSystem.readFolder(`${this.#folder}/${name}`);
      if (entries === undefined) return undefined;
      if (!entries.some((entry) => entry.name === OPENING_NAME)) throw missing(path);
    }
  }

  /** A session without a first entry cannot be; asking for it anyway tells damage from a session that went away. */
  async #lastNumber(folder: string): Promise<number> {
    const entries = (await this.#fileSystem.readFolder(folder)) ?? [];
    return entries.reduce((max, { name }) => Math.max(max, parseEntryName(name) ?? 0), 1);
  }

  /** Folds in what was written since, at least through an entry; `false` if the log was replaced by one of a new session. */
  async #catchUp(log: SessionLog, through: number): Promise<boolean> {
    for (;;) {
      const first = log.next;
      const count = Math.min(Math.max(through - first + 1, 1), PARALLEL_READS);
      const numbers = Array.from({ length: count }, (_, index) => first + index);
      const entries = await mapBounded(numbers, PARALLEL_READS, (number) => this.#readOrNote(log, number));
      for (const [index, entry] of entries.entries()) {
        const number = first + index;
        if (entry === 'replaced') return false;
        if (entry === undefined && number > through) return true;
        this.#apply(log, number, entry ?? missing(`${log.folder}/${entryName(number)}`));
      }
    }
  }

  #apply(log: SessionLog, number: number, entry: LogEntry | CorruptError): void {
    log.apply(number, entry);
    if (entry instanceof CorruptError) return;
    const id = entry.checkpoint?.header.id ?? entry.erased?.id;
    if (id !== undefined) this.#homes.set(id, log.sessionId);
  }

  async #readOrNote(log: SessionLog, number: number): Promise<LogEntry | CorruptError | 'replaced' | undefined> {
    try {
      const entry = await this.readEntry(log, number);
      return entry !== undefined && entry.incarnation !== log.incarnation ? 'replaced' : entry;
    } catch (error) {
      if (error instanceof CorruptError) return error;
      throw error;
    }
  }

  /** Reads one entry from its file; `undefined` if there is none. */
  async readEntry(log: SessionLog, number: number): Promise<LogEntry | undefined> {
    const path = `${log.folder}/${entryName(number)}`;
    const bytes = await this.#fileSystem.readFile(path);
    if (bytes === undefined) return undefined;
    const entry = parseEntry(bytes, path);
    if (number > log.last.number) log.last = { number, bytes: bytes.length };
    if (entry.number === number && entry.sessionId === log.sessionId) return entry;
    throw new CorruptError(`${path} holds entry ${entry.number} of session "${entry.sessionId}".`, {
      details: { path },
    });
  }

  /** Makes durable what other processes wrote and may not have synced yet, before anything is built on it. */
  async makeDurable(log: SessionLog, through: number = log.next - 1): Promise<void> {
    if (log.syncedThrough >= through) return;
    if (log.syncedThrough === 0) await this.#files.syncFolder(this.#folder);
    await this.#files.syncFolder(log.folder);
    log.syncedThrough = Math.max(log.syncedThrough, through);
  }

  /** Makes every deletion durable that other processes began: of entries, and of whole sessions. */
  async makeAllDurable(logs: readonly SessionLog[]): Promise<void> {
    await this.#files.syncFolder(this.#folder);
    await mapBounded(logs, PARALLEL_WRITES, (log) => this.makeDurable(log));
  }

  /** Writes the first entry of a session, durably; `false` if another process was first. */
  async create(sessionId: SessionId, content: LogContent): Promise<boolean> {
    const opening = { sessionId, incarnation: randomUUID() };
    const name = encodeSessionId(sessionId);
    const temp = this.#files.tempPath();
    const log = new SessionLog(opening, `${this.#folder}/${name}`);
    const text = formatEntry({ ...opening, number: 1, ...content });
    try {
      await this.#fileSystem.makeFolder(temp);
      await this.#files.writeSynced(`${temp}/${OPENING_NAME}`, formatOpening(opening));
      await this.#files.writeSynced(`${temp}/${entryName(1)}`, text);
      await this.#files.syncFolder(temp);
      await this.#fileSystem.rename(temp, log.folder);
    } catch (error) {
      await this.#files.discard(temp);
      if (hasFileCode(error, 'ENOTEMPTY', 'EEXIST')) return false;
      throw error;
    }
    await this.#files.syncName(this.#folder);
    this.#applyWritten(log, 1, text);
    this.#logs.set(name, log);
    return true;
  }

  /** Writes an entry of a log, durably; `false` if another process took its number. */
  async append(log: SessionLog, content: LogContent, number: number): Promise<boolean> {
    const text = formatEntry({ sessionId: log.sessionId, incarnation: log.incarnation, number, ...content });
    await this.#checkLast(log);
    await this.makeDurable(log, number - 1);
    const temp = await this.#files.writeTemp(text);
    try {
      await this.#fileSystem.link(temp, `${log.folder}/${entryName(number)}`);
    } catch (error) {
      if (hasFileCode(error, 'EEXIST')) return false;
      throw error;
    } finally {
      await this.#files.discard(temp);
    }
    await this.#files.syncName(log.folder);
    this.#applyWritten(log, number, text);
    return true;
  }

  /** What is folded is what was written, not the caller's objects, which the caller may go on to change. */
  #applyWritten(log: SessionLog, number: number, text: string): void {
    const bytes = Buffer.from(text);
    log.syncedThrough = Math.max(log.syncedThrough, number);
    if (number > log.last.number) log.last = { number, bytes: bytes.length };
    this.#apply(log, number, parseEntry(bytes, log.folder));
  }

  /** What was cut off while this had it open is not gone on from: the next call reads what is left. */
  async #checkLast(log: SessionLog): Promise<void> {
    const { number, bytes } = log.last;
    const path = `${log.folder}/${entryName(number)}`;
    if (number === 0 || (await this.#fileSystem.statSize(path)) === bytes) return;
    this.#logs.delete(encodeSessionId(log.sessionId));
    throw new StorageError(
      `${path} was cut off or removed while it was in use, so nothing was saved after it. Open the session again to see what is left.`,
      { details: { path } },
    );
  }

  /** Rewrites a session's entries without the content that was deleted since. Only inside a shared section. */
  async eraseDeleted(sessionId: SessionId): Promise<void> {
    // As it is now: before this section began, another process may have deleted it.
    const log = await this.get(sessionId);
    const numbers = [...(log?.toErase ?? [])];
    if (log === undefined || numbers.length === 0) return;
    // The deletion may be another process's: content goes only when a power cut cannot undo the deletion any more.
    await this.makeDurable(log);
    await mapBounded(numbers, PARALLEL_WRITES, (number) => this.#erase(log, number));
    await this.#files.syncFolder(log.folder);
    for (const number of numbers) log.toErase.delete(number);
  }

  async #erase(log: SessionLog, number: number): Promise<void> {
    const entry = await this.readEntry(log, number);
    // Gone with its session.
    if (entry === undefined || entry.incarnation !== log.incarnation) return;
    const erased = withoutDeleted(log, entry);
    if (erased === undefined) return; // done by another process
    const temp = await this.#files.writeTemp(formatEntry(erased));
    await this.#fileSystem.rename(temp, `${log.folder}/${entryName(number)}`);
  }

  /** Removes a session's folder; returns whether there was one. Only inside an exclusive section. */
  async remove(sessionId: SessionId): Promise<boolean> {
    const name = encodeSessionId(sessionId);
    const path = `${this.#folder}/${name}`;
    if ((await this.#fileSystem.readFolder(path)) === undefined) return false;
    this.#files.checkWritable();
    const trash = this.#files.tempPath();
    await this.#fileSystem.rename(path, trash);
    for (const id of this.#logs.get(name)?.rows.keys() ?? []) this.#homes.delete(id);
    this.#logs.delete(name);
    await this.#files.syncFolder(this.#folder);
    await this.#fileSystem.removeTree(trash);
    return true;
  }
}

function rowIn(log: SessionLog, id: CheckpointId): FoundRow {
  return { log, row: log.rows.get(id) as LogRow };
}

/** An entry without what was deleted since; undefined if it holds nothing of the kind. */
function withoutDeleted(log: SessionLog, entry: LogEntry): LogEntry | undefined {
  const { checkpoint, effects = [], ...rest } = entry;
  const isGone = checkpoint !== undefined && log.rows.get(checkpoint.header.id)?.isDeleted === true;
  const kept = effects.filter((effect) => log.hasEffect(effect, entry.number));
  if (!isGone && kept.length === effects.length) return undefined;
  return {
    ...rest,
    ...(checkpoint !== undefined &&
      (isGone ? { erased: { id: checkpoint.header.id, digest: checkpoint.digest } } : { checkpoint })),
    ...(kept.length > 0 && { effects: kept }),
  };
}

function checkOpening(opening: SessionOpening, name: string, path: string): SessionOpening {
  if (encodeSessionId(opening.sessionId) === name) return opening;
  throw new CorruptError(`${path} belongs to another session, "${opening.sessionId}".`, { details: { path } });
}

const missing = (path: string): CorruptError => new CorruptError(`${path} is missing.`, { details: { path } });
