import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import type { SessionKey, SessionStoreEntry } from '@anthropic-ai/claude-agent-sdk';
import { messageOf, NotFoundError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import type { SavestateSessionStore } from '../claude/savestate-session-store.ts';

/** A transcript on disk, and the key that the SDK has for it. */
type LocalTranscript = { readonly path: string; readonly key: SessionKey };

/** What was left out, and why: a line, or, without one, a whole file or folder. */
type Skipped = { readonly file: string; readonly line?: number; readonly reason: string };

/** What became of local transcripts. `present` counts entries that were there already, `skipped` names lines that are none, and links. */
export type LocalImport = {
  readonly sessions: number;
  readonly subagents: number;
  readonly entries: number;
  readonly present: number;
  readonly skipped: readonly Skipped[];
};

type ImportOptions = { readonly onFile?: (done: number, total: number) => void; readonly signal?: AbortSignal };

const BATCH = 500;
const SUFFIX = '.jsonl';

/** Brings the transcripts of a folder of the SDK in: all projects, one of them, or one file. What is there already is left alone. */
export async function importLocalTranscripts(
  store: SavestateSessionStore,
  place: string,
  { onFile, signal }: ImportOptions = {},
): Promise<LocalImport> {
  const folders = new LocalFolders();
  const found = folders.find(place);
  const counts = { sessions: 0, subagents: 0, entries: 0, present: 0 };
  const { skipped } = folders;
  for (const [at, { path, key }] of found.entries()) {
    signal?.throwIfAborted();
    const read = await readTranscript(path);
    skipped.push(...read.skipped);
    const added = await appendNew(store, key, read.entries);
    counts[key.subpath === undefined ? 'sessions' : 'subagents']++;
    counts.entries += added;
    counts.present += read.entries.length - added;
    onFile?.(at + 1, found.length);
  }
  return { ...counts, skipped };
}

/** Looks for transcripts, and notes what is left out on the way. */
class LocalFolders {
  readonly skipped: Skipped[] = [];

  /** The transcripts at a place, main ones before those of their subagents. */
  find(place: string): LocalTranscript[] {
    const found = statSync(place, { throwIfNoEntry: false });
    const projects = join(place, 'projects');
    if (found === undefined) throw new NotFoundError(`There is no folder or file ${place}.`, { details: { place } });
    if (found.isFile()) return this.#sessionAt(dirname(place), basename(place));
    const folder = existsSync(projects) ? projects : place;
    const { folders } = this.#look(folder);
    const transcripts = folder === place ? this.#projectAt(place) : [];
    const all = transcripts.length > 0 ? transcripts : folders.flatMap((path) => this.#projectAt(path));
    if (all.length > 0 || this.skipped.length > 0) return all;
    throw new NotFoundError(
      `There are no transcripts (*${SUFFIX}) in ${place}. Name the folder of the SDK, such as ~/.claude/projects, one project in it, or one file.`,
      { details: { place } },
    );
  }

  #projectAt(folder: string): LocalTranscript[] {
    return this.#look(folder).files.flatMap((path) => this.#sessionAt(folder, basename(path)));
  }

  #sessionAt(folder: string, file: string): LocalTranscript[] {
    const main = { projectKey: basename(folder), sessionId: basename(file, SUFFIX) };
    const below = join(folder, main.sessionId);
    const subagents = existsSync(below) ? this.#filesBelow(below) : [];
    return [
      { path: join(folder, file), key: main },
      ...subagents.map((path) => ({
        path,
        key: { ...main, subpath: relative(below, path).slice(0, -SUFFIX.length).replaceAll('\\', '/') },
      })),
    ];
  }

  #filesBelow(folder: string): string[] {
    const { files, folders } = this.#look(folder);
    return [...files, ...folders.flatMap((path) => this.#filesBelow(path))];
  }

  /** What is in a folder. Links may lead anywhere, or in circles: they are not followed. */
  #look(folder: string): { readonly files: string[]; readonly folders: string[] } {
    const [files, folders]: [string[], string[]] = [[], []];
    const entries = readdirSync(folder, { withFileTypes: true });
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(folder, entry.name);
      const isTranscript = entry.name.endsWith(SUFFIX);
      const isLink = entry.isSymbolicLink();
      if (entry.isDirectory()) folders.push(path);
      else if (isTranscript && entry.isFile()) files.push(path);
      else if (isTranscript || (isLink && statSync(path, { throwIfNoEntry: false })?.isDirectory()))
        this.#skip(path, isLink ? LINK : 'it is no file');
    }
    return { files, folders };
  }

  #skip(file: string, reason: string): void {
    if (!this.skipped.some((known) => known.file === file)) this.skipped.push({ file, reason });
  }
}

const LINK = 'it is a link, and links are not followed: name what it points at to import that';

type ReadTranscript = { entries: SessionStoreEntry[]; skipped: Skipped[] };

async function readTranscript(path: string): Promise<ReadTranscript> {
  const read: ReadTranscript = { entries: [], skipped: [] };
  let line = 0;
  for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })) {
    line++;
    if (text.trim() === '') continue;
    const entry = parseEntry(text);
    if (typeof entry === 'string') read.skipped.push({ file: path, line, reason: entry });
    else read.entries.push(entry);
  }
  const about = path.replace(/\.jsonl$/, '.meta.json');
  const entry = existsSync(about) ? parseEntry(readFileSync(about, 'utf8'), { type: 'agent_metadata' }) : undefined;
  if (typeof entry === 'string') read.skipped.push({ file: about, reason: entry });
  else if (entry !== undefined) read.entries.push(entry);
  return read;
}

/** An entry, or why a line is none: the last one of a process that was killed may be cut. */
function parseEntry(text: string, defaults?: SessionStoreEntry): SessionStoreEntry | string {
  try {
    const found = JSON.parse(text) as SessionStoreEntry | null;
    const entry = defaults === undefined || !isRecord(found) ? found : { ...defaults, ...found };
    return typeof entry?.type === 'string' ? entry : 'it is no entry: it has no type';
  } catch (error) {
    return `it is no JSON (${messageOf(error)})`;
  }
}

/** Appends what is not there; returns how many entries that were. */
async function appendNew(
  store: SavestateSessionStore,
  key: SessionKey,
  entries: readonly SessionStoreEntry[],
): Promise<number> {
  const there = (await store.load(key)) ?? [];
  const uuids = new Set(there.map(({ uuid }) => uuid));
  const nameless = new Map<string, number>();
  for (const entry of there) if (typeof entry.uuid !== 'string') count(nameless, JSON.stringify(entry), 1);
  const fresh = entries.filter((entry) => {
    if (typeof entry.uuid === 'string') return !uuids.has(entry.uuid) && uuids.add(entry.uuid) !== undefined;
    return count(nameless, JSON.stringify(entry), -1) < 0;
  });
  for (let at = 0; at < fresh.length; at += BATCH) await store.append(key, fresh.slice(at, at + BATCH));
  return fresh.length;
}

function count(counts: Map<string, number>, key: string, by: number): number {
  const now = (counts.get(key) ?? 0) + by;
  counts.set(key, Math.max(0, now));
  return now;
}
