import { SavestateError } from '../../core/errors.ts';
import { type Digest, isDigest } from '../../core/tree/chunk.ts';
import { OBJECTS_FINDING, readStub } from '../../core/tree/object-stub.ts';
import { ChunkFolder } from './chunk-folder.ts';
import { DurableFiles, parseOwnedName } from './durable-files.ts';
import type { FileSystem, FolderEntry } from './file-system.ts';
import { OPENING_NAME, parseEntryName } from './log-entry.ts';
import { Sessions } from './sessions.ts';
import { checkFormat, FORMAT_NAME, STORE_FOLDERS } from './store.ts';

/** Keeps deletions and collections away while one folder is checked. */
type Section = <T>(work: () => Promise<T>) => Promise<T>;

/** Reads every file of a store again and says, in plain words, what is not as it was written. */
export class IntegrityCheck {
  readonly #fileSystem: FileSystem;
  readonly #root: string;
  readonly #section: Section;
  readonly #findings: string[] = [];
  #hasObjects = false;

  constructor(fileSystem: FileSystem, root: string, section: Section) {
    this.#fileSystem = fileSystem;
    this.#root = root;
    this.#section = section;
  }

  async run(): Promise<string[]> {
    const root = this.#root;
    const known = new Set<string>([FORMAT_NAME, ...STORE_FOLDERS]);
    await this.#list(root, (name) => known.has(name) || parseOwnedName(name) !== undefined);
    await this.#note(() => this.#checkFormat(`${root}/${FORMAT_NAME}`));
    for (const folder of ['temp', 'locks'])
      await this.#list(`${root}/${folder}`, (name) => parseOwnedName(name) !== undefined);
    for (const { name } of await this.#list(`${root}/chunks`))
      await this.#note(() => this.#section(() => this.#checkChunks(name)));
    if (this.#hasObjects) this.#findings.push(OBJECTS_FINDING);
    for (const { name } of await this.#list(`${root}/sessions`))
      await this.#note(() => this.#section(() => this.#checkSession(name)));
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

  /** What belongs in a folder; what does not is a finding. */
  async #list(path: string, belongs: (name: string) => boolean = () => true): Promise<readonly FolderEntry[]> {
    let entries: readonly FolderEntry[] = [];
    await this.#note(async () => {
      entries = (await this.#fileSystem.readFolder(path)) ?? [];
    });
    for (const { name } of entries)
      if (!belongs(name)) this.#findings.push(`${path}/${name} is not part of a store; nothing reads it.`);
    return entries.filter(({ name }) => belongs(name));
  }

  async #checkFormat(path: string): Promise<void> {
    const bytes = await this.#fileSystem.readFile(path);
    if (bytes === undefined) this.#findings.push(`${path} is missing.`);
    else checkFormat(Buffer.from(bytes).toString('latin1'), this.#root);
  }

  async #checkChunks(prefix: string): Promise<void> {
    const folder = `${this.#root}/chunks`;
    const chunks = new ChunkFolder(this.#files, folder);
    const isChunk = (name: string) => isDigest(name) && name.startsWith(prefix) && prefix.length === 2;
    for (const { name } of await this.#list(`${folder}/${prefix}`, isChunk))
      await this.#note(async () => {
        if (isDigest(name)) await this.#checkChunk(chunks, name);
      });
  }

  async #checkChunk(chunks: ChunkFolder, digest: Digest): Promise<void> {
    const content = await chunks.readNamed(digest);
    if (content !== undefined && readStub(content) !== undefined) this.#hasObjects = true;
  }

  async #checkSession(name: string): Promise<void> {
    const folder = `${this.#root}/sessions`;
    await this.#list(`${folder}/${name}`, (file) => file === OPENING_NAME || parseEntryName(file) !== undefined);
    const log = await new Sessions(this.#files, folder).read(name);
    this.#findings.push(...(log?.damages ?? []).map(({ message }) => message));
  }

  /** Nothing is written through it. */
  get #files(): DurableFiles {
    return new DurableFiles(this.#fileSystem, `${this.#root}/temp`);
  }
}
