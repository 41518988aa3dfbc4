import { hash } from 'node:crypto';
import { SavestateError } from '../../core/errors.ts';
import { isNamed } from '../named-bytes.ts';
import { parseOwnedName } from './durable-files.ts';
import type { FileSystem, FolderEntry } from './file-system.ts';
import {
  encodeSessionId,
  entryName,
  parseEntry,
  parseEntryName,
  parseOpening,
  type SessionOpening,
} from './log-entry.ts';
import { OPENING_NAME } from './sessions.ts';
import { checkFormat, FORMAT_NAME, STORE_FOLDERS } from './store.ts';

/** Keeps deletions and collections away while one folder is checked. */
type Section = <T>(work: () => Promise<T>) => Promise<T>;

/** Reads every file of a store again and says, in plain words, what is not as it was written. */
export class IntegrityCheck {
  readonly #fileSystem: FileSystem;
  readonly #section: Section;
  readonly #findings: string[] = [];

  constructor(fileSystem: FileSystem, section: Section) {
    this.#fileSystem = fileSystem;
    this.#section = section;
  }

  async run(root: string): Promise<string[]> {
    await this.#note(() => this.#checkTop(root));
    await this.#note(() => this.#checkOwned(`${root}/temp`));
    await this.#note(() => this.#checkOwned(`${root}/locks`));
    for (const { name } of await this.#list(`${root}/chunks`)) {
      await this.#note(() => this.#section(() => this.#checkChunks(`${root}/chunks/${name}`, name)));
    }
    for (const { name } of await this.#list(`${root}/sessions`)) {
      await this.#note(() => this.#section(() => this.#checkSession(`${root}/sessions/${name}`, name)));
    }
    return this.#findings;
  }

  /** Damage is a finding, not a failure: the check goes on with the next file. */
  async #note(check: () => Promise<void>): Promise<void> {
    try {
      await check();
    } catch (error) {
      this.#findings.push(error instanceof SavestateError ? error.message : `A file could not be read: ${error}`);
    }
  }

  async #list(path: string): Promise<readonly FolderEntry[]> {
    let entries: readonly FolderEntry[] = [];
    await this.#note(async () => {
      entries = (await this.#fileSystem.readFolder(path)) ?? [];
    });
    return entries;
  }

  #unknown(path: string): void {
    this.#findings.push(`${path} is not part of a store; nothing reads it.`);
  }

  async #checkTop(root: string): Promise<void> {
    const known = new Set<string>([FORMAT_NAME, ...STORE_FOLDERS]);
    for (const { name } of await this.#list(root)) {
      if (!known.has(name) && parseOwnedName(name) === undefined) this.#unknown(`${root}/${name}`);
    }
    const bytes = await this.#fileSystem.readFile(`${root}/${FORMAT_NAME}`);
    if (bytes === undefined) this.#findings.push(`${root}/${FORMAT_NAME} is missing.`);
    else checkFormat(Buffer.from(bytes).toString('latin1'), root);
  }

  async #checkOwned(path: string): Promise<void> {
    for (const { name } of await this.#list(path)) {
      if (parseOwnedName(name) === undefined) this.#unknown(`${path}/${name}`);
    }
  }

  async #checkChunks(folder: string, prefix: string): Promise<void> {
    for (const { name } of await this.#list(folder)) {
      const path = `${folder}/${name}`;
      if (!/^[0-9a-f]{64}$/.test(name) || !name.startsWith(prefix) || prefix.length !== 2) this.#unknown(path);
      else await this.#note(() => this.#checkChunk(path, name));
    }
  }

  async #checkChunk(path: string, digest: string): Promise<void> {
    const bytes = await this.#fileSystem.readFile(path);
    if (bytes === undefined) return;
    if (!isNamed(bytes, digest))
      this.#findings.push(`${path} is damaged: its content has the digest ${hash('sha256', bytes)}.`);
  }

  async #checkSession(folder: string, name: string): Promise<void> {
    const entries = await this.#list(folder);
    const opening = await this.#checkOpening(folder, name);
    const numbers: number[] = [];
    for (const entry of entries) {
      const number = parseEntryName(entry.name);
      if (number !== undefined) numbers.push(number);
      else if (entry.name !== OPENING_NAME) this.#unknown(`${folder}/${entry.name}`);
    }
    numbers.sort((a, b) => a - b);
    this.#checkGaps(folder, numbers);
    for (const number of numbers) await this.#note(() => this.#checkEntry(folder, number, opening));
  }

  async #checkOpening(folder: string, name: string): Promise<SessionOpening | undefined> {
    const path = `${folder}/${OPENING_NAME}`;
    let opening: SessionOpening | undefined;
    await this.#note(async () => {
      const bytes = await this.#fileSystem.readFile(path);
      if (bytes === undefined) this.#findings.push(`${path} is missing.`);
      else opening = parseOpening(bytes, path);
    });
    if (opening !== undefined && encodeSessionId(opening.sessionId) !== name) {
      this.#findings.push(`${path} belongs to another session, "${opening.sessionId}".`);
    }
    return opening;
  }

  #checkGaps(folder: string, numbers: readonly number[]): void {
    let expected = 1;
    for (const number of numbers) {
      if (number !== expected) this.#findings.push(`${folder}/${entryName(expected)} is missing.`);
      expected = number + 1;
    }
    if (numbers.length === 0) this.#findings.push(`${folder} holds no entries.`);
  }

  async #checkEntry(folder: string, number: number, opening: SessionOpening | undefined): Promise<void> {
    const path = `${folder}/${entryName(number)}`;
    const bytes = await this.#fileSystem.readFile(path);
    if (bytes === undefined) return;
    const entry = parseEntry(bytes, path);
    const isInPlace =
      entry.number === number &&
      (opening === undefined || (entry.sessionId === opening.sessionId && entry.incarnation === opening.incarnation));
    if (!isInPlace) {
      this.#findings.push(`${path} is not where it belongs: it is entry ${entry.number} of "${entry.sessionId}".`);
    }
  }
}
