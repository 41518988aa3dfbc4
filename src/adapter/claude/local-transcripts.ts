import { createReadStream, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { SessionKey, SessionStoreEntry } from '@anthropic-ai/claude-agent-sdk';
import { messageOf, NotFoundError } from '../../core/errors.ts';
import type { SavestateSessionStore } from './savestate-session-store.ts';

/** A transcript on disk, and the key that the SDK has for it. */
type LocalTranscript = { readonly path: string; readonly key: SessionKey };

/** What became of local transcripts. `present` counts entries that were there already, `skipped` names lines that are none. */
export type LocalImport = {
  readonly sessions: number;
  readonly subagents: number;
  readonly entries: number;
  readonly present: number;
  readonly skipped: readonly { readonly file: string; readonly line: number; readonly reason: string }[];
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
  const found = findTranscripts(place);
  const counts = { sessions: 0, subagents: 0, entries: 0, present: 0 };
  const skipped: LocalImport['skipped'][number][] = [];
  for (const [at, { path, key }] of found.entries()) {
    signal?.throwIfAborted();
    const read = await readTranscript(path);
    for (const { line, reason } of read.skipped) skipped.push({ file: path, line, reason });
    const added = await appendNew(store, key, read.entries);
    counts[key.subpath === undefined ? 'sessions' : 'subagents']++;
    counts.entries += added;
    counts.present += read.entries.length - added;
    onFile?.(at + 1, found.length);
  }
  return { ...counts, skipped };
}

/** The transcripts at a place, main ones before those of their subagents. */
function findTranscripts(place: string): LocalTranscript[] {
  const found = statSync(place, { throwIfNoEntry: false });
  const projects = join(place, 'projects');
  if (found === undefined) throw new NotFoundError(`There is no folder or file ${place}.`, { details: { place } });
  if (found.isFile()) return sessionAt(dirname(place), basename(place));
  const transcripts = existsSync(projects) ? foldersIn(projects).flatMap(projectAt) : projectAt(place);
  const all = transcripts.length > 0 ? transcripts : foldersIn(place).flatMap(projectAt);
  if (all.length > 0) return all;
  throw new NotFoundError(
    `There are no transcripts (*${SUFFIX}) in ${place}. Name the folder of the SDK, such as ~/.claude/projects, one project in it, or one file.`,
    { details: { place } },
  );
}

function foldersIn(folder: string): string[] {
  const folders = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  return folders.map(({ name }) => join(folder, name)).sort();
}

function projectAt(folder: string): LocalTranscript[] {
  const files = readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isFile());
  const names = files.map(({ name }) => name).filter((name) => name.endsWith(SUFFIX));
  return names.sort().flatMap((name) => sessionAt(folder, name));
}

function sessionAt(folder: string, file: string): LocalTranscript[] {
  const main = { projectKey: basename(folder), sessionId: basename(file, SUFFIX) };
  const below = join(folder, main.sessionId);
  const inner = existsSync(below) ? readdirSync(below, { recursive: true, encoding: 'utf8' }) : [];
  const subagents = inner.filter((name) => name.endsWith(SUFFIX)).sort();
  return [
    { path: join(folder, file), key: main },
    ...subagents.map((name) => ({
      path: join(below, name),
      key: { ...main, subpath: name.slice(0, -SUFFIX.length).replaceAll('\\', '/') },
    })),
  ];
}

type ReadTranscript = { entries: SessionStoreEntry[]; skipped: { line: number; reason: string }[] };

async function readTranscript(path: string): Promise<ReadTranscript> {
  const read: ReadTranscript = { entries: [], skipped: [] };
  let line = 0;
  for await (const text of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })) {
    line++;
    if (text.trim() === '') continue;
    const entry = parseEntry(text);
    if (typeof entry === 'string') read.skipped.push({ line, reason: entry });
    else read.entries.push(entry);
  }
  const about = path.replace(/\.jsonl$/, '.meta.json');
  if (existsSync(about)) read.entries.push({ type: 'agent_metadata', ...JSON.parse(readFileSync(about, 'utf8')) });
  return read;
}

/** An entry, or why a line is none: the last one of a process that was killed may be cut. */
function parseEntry(text: string): SessionStoreEntry | string {
  try {
    const entry = JSON.parse(text) as SessionStoreEntry | null;
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
  for (const entry of there) if (entry.uuid === undefined) count(nameless, JSON.stringify(entry), 1);
  const fresh = entries.filter((entry) => {
    if (entry.uuid !== undefined) return !uuids.has(entry.uuid) && uuids.add(entry.uuid) !== undefined;
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
