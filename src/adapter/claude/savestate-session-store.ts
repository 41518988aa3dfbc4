import type {
  foldSessionSummary,
  SessionKey,
  SessionStore,
  SessionStoreEntry,
  SessionSummaryEntry,
} from '@anthropic-ai/claude-agent-sdk';
import { InvalidInputError } from '../../core/errors.ts';
import { checkOptions, type OptionCheck, string } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseSessionId, type SessionId } from '../../core/record/id.ts';
import { MAX_VALUE_CHARS } from '../../manager/engine/save-options.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { type AdapterStorageOptions, toOptions } from '../adapter-storage.ts';
import { decodePart, encodePart, sessionsBelow } from '../session-name.ts';
import type { TranscriptView } from '../transcript/transcript-state.ts';
import { Transcripts } from '../transcript/transcripts.ts';

type Entry = SessionStoreEntry;
type Summary = SessionSummaryEntry['data'];
type Fold = typeof foldSessionSummary;

/** Heads that are read at once when sessions are listed. */
const READ_AT_ONCE = 16;

/** What is left of a checkpoint's metadata for the summary. */
const MAX_SUMMARY_CHARS = MAX_VALUE_CHARS - 1024;

/**
 * Keeps the transcripts of the Claude Agent SDK: pass it as `sessionStore`. A transcript is a session, `claude/<project>/<session>`, and
 * each batch a checkpoint, so it can be listed, searched, compared, forked and rewound like any other.
 */
export class SavestateSessionStore implements SessionStore {
  readonly #transcripts: Transcripts<Entry>;

  constructor(storageOrOptions: ChunkStorage | AdapterStorageOptions);
  constructor(...given: [ChunkStorage | AdapterStorageOptions]) {
    const options = toOptions<AdapterStorageOptions>(given, {}, 'SavestateSessionStore');
    this.#transcripts = Transcripts.of(options, 'claude', 'uuid');
  }

  /** Adds entries to a transcript, in the order of the calls; those whose `uuid` is there already are left out. */
  async append(key: SessionKey, entries: Entry[]): Promise<void> {
    const sessionId = sessionOf(key);
    checkEntries(entries);
    if (entries.length === 0) return;
    const transcript = this.#transcripts.open(sessionId);
    const taken = transcript.take(entries);
    const fold = key.subpath === undefined ? await loadFold() : undefined;
    const edit = (view: TranscriptView<Entry>) => {
      const add = selectNew(view, taken);
      if (add.length === 0) return undefined;
      const summary = fold === undefined ? undefined : foldSummary(fold, key, { view, add });
      return { keep: view.length, add, metadata: summary === undefined ? {} : { summary } };
    };
    await transcript.change({ trigger: 'entries_appended', edit });
  }

  /** All entries of a transcript in their order; null if there is none. */
  async load(key: SessionKey): Promise<Entry[] | null> {
    const view = await this.#transcripts.open(sessionOf(key)).read();
    return view.head === undefined ? null : view.itemsFrom(0);
  }

  /** The main transcripts of a project, with the time of the last change. */
  async listSessions(projectKey: string): Promise<{ sessionId: string; mtime: number }[]> {
    const heads = await this.#readHeads(belowProject(projectKey));
    return heads.map(({ name, head }) => ({ sessionId: name, mtime: head.timestamp.getTime() }));
  }

  /** The summaries of a project's main transcripts; one that has none yet is left out, and the SDK reads that itself. */
  async listSessionSummaries(projectKey: string): Promise<SessionSummaryEntry[]> {
    const heads = await this.#readHeads(belowProject(projectKey));
    return heads.flatMap(({ name, head }) => {
      const summary = summaryOf(head);
      return summary === undefined ? [] : [{ sessionId: name, mtime: head.timestamp.getTime(), data: summary }];
    });
  }

  /** Deletes a transcript with its history; a main one with those of its subagents. */
  async delete(key: SessionKey): Promise<void> {
    const main = sessionOf(key);
    const below =
      key.subpath === undefined ? await sessionsBelow(this.#transcripts.engine.storage, belowSession(key)) : [];
    for (const sessionId of [...below, main]) await this.#transcripts.open(sessionId).delete();
  }

  /** The subpaths of a main transcript. */
  async listSubkeys(key: { projectKey: string; sessionId: string }): Promise<string[]> {
    const prefix = belowSession(key);
    const sessions = await sessionsBelow(this.#transcripts.engine.storage, prefix);
    return sessions.flatMap((sessionId) => nameBelow(sessionId, prefix) ?? []);
  }

  async #readHeads(prefix: string): Promise<{ readonly name: string; readonly head: Checkpoint }[]> {
    const sessions = await sessionsBelow(this.#transcripts.engine.storage, prefix);
    const named = sessions.flatMap((sessionId) => {
      const name = nameBelow(sessionId, prefix);
      return name === undefined ? [] : [{ sessionId, name }];
    });
    const heads: { name: string; head: Checkpoint }[] = [];
    for (let at = 0; at < named.length; at += READ_AT_ONCE) {
      const page = named.slice(at, at + READ_AT_ONCE);
      const read = await Promise.all(page.map(({ sessionId }) => this.#transcripts.head(sessionId)));
      for (const [place, head] of read.entries())
        if (head !== undefined) heads.push({ name: page[place]?.name ?? '', head });
    }
    return heads;
  }
}

/** The entries that are not there yet, each once. */
function selectNew(view: TranscriptView<Entry>, entries: readonly Entry[]): Entry[] {
  const uuids = new Set<string>();
  return entries.filter(({ uuid }) => {
    if (typeof uuid !== 'string') return true;
    const isNew = view.find(uuid) === undefined && !uuids.has(uuid);
    uuids.add(uuid);
    return isNew;
  });
}

/** The summary after these entries. One that is missing, as after an edit by hand, is made of all of them. */
function foldSummary(
  fold: Fold,
  key: SessionKey,
  { view, add }: { readonly view: TranscriptView<Entry>; readonly add: Entry[] },
): Summary | undefined {
  const before = summaryOf(view.head);
  const previous = before === undefined ? undefined : { sessionId: key.sessionId, mtime: 0, data: before };
  const entries = before === undefined ? [...view.itemsFrom(0), ...add] : add;
  const { data } = fold(previous, key, entries);
  return JSON.stringify(data).length <= MAX_SUMMARY_CHARS ? data : undefined;
}

function summaryOf(head: Checkpoint | undefined): Summary | undefined {
  const summary = head?.metadata?.summary;
  return typeof summary === 'object' && summary !== null ? structuredClone(summary as Summary) : undefined;
}

let folding: Promise<Fold | undefined> | undefined;

/** The SDK's own fold; undefined where the SDK is not installed, as when the command line imports transcripts. */
function loadFold(): Promise<Fold | undefined> {
  folding ??= import('@anthropic-ai/claude-agent-sdk').then(
    (sdk) => sdk.foldSessionSummary,
    () => undefined,
  );
  return folding;
}

function checkEntries(entries: readonly unknown[]): void {
  const at = Array.isArray(entries)
    ? entries.findIndex((entry) => typeof (entry as Entry | null)?.type !== 'string')
    : -2;
  if (at === -1) return;
  throw new InvalidInputError(
    `append() takes a list of transcript entries, each an object with a type; ${at === -2 ? 'this is no list' : `entry ${at} is none`}. Nothing was saved.`,
    { details: { at } },
  );
}

const PREFIX = 'claude';

const filled: OptionCheck = (value) => string(value) ?? (value === '' ? 'must not be empty' : undefined);

/** The session of a transcript, main or of a subagent: one to one. Throws for a key that is none. */
export function sessionOf(key: SessionKey): SessionId {
  checkOptions(
    key,
    { projectKey: { required: filled }, sessionId: { required: filled }, subpath: filled },
    'a session key',
  );
  const { subpath } = key;
  return parseSessionId(
    `${belowProject(key.projectKey)}${encodePart(key.sessionId)}${subpath === undefined ? '' : `/${encodePart(subpath)}`}`,
  );
}

/** What the sessions of a project begin with. */
function belowProject(projectKey: string): string {
  return `${PREFIX}/${encodePart(projectKey)}/`;
}

/** What the sessions of a main transcript's subagents begin with. */
function belowSession(key: SessionKey): string {
  return `${sessionOf({ projectKey: key.projectKey, sessionId: key.sessionId })}/`;
}

/** The last part of a session's id below a prefix; undefined for what is further below. */
function nameBelow(sessionId: SessionId, prefix: string): string | undefined {
  const rest = sessionId.slice(prefix.length);
  return rest.includes('/') ? undefined : decodePart(rest);
}
