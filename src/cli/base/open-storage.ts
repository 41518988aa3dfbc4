import { sessionOf } from '../../adapter/langgraph/record/thread-session.ts';
import { sessionsBelow } from '../../adapter/session-name.ts';
import { NotFoundError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import { type CheckpointId, parseSessionId, type SessionId } from '../../core/record/id.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { settleReplacements } from '../../manager/engine/import-claim.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import { findSteps, rankSessions, threadOf } from '../../view/list-sessions.ts';

/** A storage that is open for a command, and the session it is about. */
export class OpenStorage {
  readonly manager: CheckpointManager;
  readonly storage: ChunkStorage;
  #sessionId: SessionId | undefined;
  readonly #isNamed: boolean;
  /** Whether what was named, or is the latest, was looked up. */
  #isResolved: Promise<void> | undefined;
  /** What `@` means instead of the head of the current branch. */
  position: CheckpointId | undefined;
  /** Reads what the last bisect found. */
  readonly readFirstBad: () => Promise<CheckpointId | undefined>;

  constructor(
    storage: ChunkStorage,
    { sessionId, readFirstBad }: { readonly sessionId: string | undefined } & Pick<OpenStorage, 'readFirstBad'>,
  ) {
    this.readFirstBad = readFirstBad;
    this.storage = storage;
    this.manager = new CheckpointManager({ storage, unknownClasses: 'keep' });
    this.#sessionId = sessionId === undefined ? undefined : parseSessionId(sessionId);
    this.#isNamed = sessionId !== undefined;
  }

  /** Brings sessions in whose `redact` was killed. */
  finishReplacements(): Promise<void> {
    return settleReplacements(this.manager.engine);
  }

  /** Goes on with another session. */
  select(sessionId: SessionId): void {
    if (sessionId !== this.#sessionId) this.position = undefined;
    this.#sessionId = sessionId;
    this.#isResolved = undefined;
  }

  /** The session that is meant: the one named, else the one that was saved to last. */
  async session(): Promise<SessionId> {
    const found = await this.findSession();
    if (found !== undefined) return found;
    const [store] = await sessionsBelow(this.storage, STORE_PREFIX);
    throw new NotFoundError(
      store === undefined
        ? 'This storage has no checkpoints yet. Save one from a program, or run "savestate run" or "savestate demo".'
        : `This storage holds only stores of LangGraph, such as ${store}. Name one with --session.`,
    );
  }

  /** Says which session was chosen because none was named; undefined where there is no other. */
  async describeChoice(): Promise<string | undefined> {
    if (this.#isNamed || (await this.storage.listSessions({ limit: 2 })).length < 2) return undefined;
    return `This is session "${await this.session()}", which was saved to last. Name another with -s; "savestate sessions" lists all.`;
  }

  /** Like `session`; throws if there is nothing of it. */
  async knownSession(): Promise<SessionId> {
    const found = await this.session();
    if ((await hasSession(this, found)) || (await this.describeUnsaved()) !== undefined) return found;
    throw await this.#noSuchSession(found);
  }

  /** Like `session`, but undefined where there is nothing yet. */
  async findSession(): Promise<SessionId | undefined> {
    this.#isResolved ??= this.#resolve();
    await this.#isResolved;
    return this.#sessionId;
  }

  async #resolve(): Promise<void> {
    const named = this.#sessionId;
    const found = named === undefined ? await findLatestSession(this) : await findNamedSession(this, named);
    if (this.#sessionId === named) this.#sessionId = found;
  }

  /** The head of the current branch of the session that is meant. */
  async head(): Promise<CheckpointId> {
    const sessionId = await this.session();
    const branch = await this.manager.currentBranch(sessionId);
    const id = await this.findName(sessionId, 'branch', branch);
    if (id !== undefined) return id;
    const names = (await this.manager.branches(sessionId)).map((each) => each.branch);
    if (names.length === 0) throw await this.#noSuchSession(sessionId);
    throw new NotFoundError(`Session "${sessionId}" has no branch "${branch}" (it has: ${names.join(', ')}).`);
  }

  async #noSuchSession(sessionId: SessionId): Promise<NotFoundError> {
    const unsaved = await this.describeUnsaved();
    if (unsaved !== undefined)
      return new NotFoundError(`${unsaved} "savestate log --steps" lists them.`, { details: { sessionId } });
    const listed = await this.storage.listSessions({ limit: LOOKED_AT_SESSIONS });
    const known = listed.filter((id) => id !== sessionId); // begun, and stopped before anything was saved
    const shown = known
      .slice(0, SHOWN_SESSIONS)
      .map((id) => JSON.stringify(id))
      .join(', ');
    const advice = `There are: ${shown}${known.length > SHOWN_SESSIONS ? ', ...' : '.'} Name one with -s; "savestate sessions" lists all.`;
    return new NotFoundError(
      `There is no session "${sessionId}" in this storage.${this.manager.engine.repository.describeEnd(sessionId)}${formatSuggestion(suggest(sessionId, known))} ${known.length === 0 ? 'There are none yet.' : advice}`,
      { details: { sessionId } },
    );
  }

  /** What there is of a session that only recorded steps; undefined of any other. */
  async describeUnsaved(): Promise<string | undefined> {
    const sessionId = await this.findSession();
    if (sessionId === undefined || (await hasSession(this, sessionId))) return undefined;
    const steps = await findSteps(this.manager.engine, sessionId);
    if (steps === undefined) return undefined;
    return `Session "${sessionId}" has no checkpoint yet; it recorded ${formatCount(steps.count, 'step')}.`;
  }

  /** What a branch or tag of the session points at. */
  async findName(sessionId: SessionId, kind: 'branch' | 'tag', name: string): Promise<CheckpointId | undefined> {
    const [ref] = await this.storage.readRefs({ sessionId, kind, name });
    return ref === undefined ? undefined : (checkRef(ref).target as CheckpointId);
  }
}

/** More are not named in an error, or looked at for one that was meant. */
const SHOWN_SESSIONS = 5;
const LOOKED_AT_SESSIONS = 200;

/** What the sessions of LangGraph's stores begin with. */
const STORE_PREFIX = 'lg-store/';

/** A session and, of a thread of LangGraph, those of its subgraphs: they are one conversation. */
export async function withSubgraphs({ storage }: OpenStorage, sessionId: SessionId): Promise<readonly SessionId[]> {
  const isThread = sessionId.startsWith('lg/') && threadOf(sessionId) === sessionId;
  return isThread ? [sessionId, ...(await sessionsBelow(storage, `${sessionId}/`))] : [sessionId];
}

/** The session of this name, or the thread of LangGraph with this id if there is no such session. */
export async function findNamedSession(opened: OpenStorage, name: SessionId): Promise<SessionId> {
  if (await hasSession(opened, name)) return name;
  const thread = sessionOf({ threadId: name, namespace: '' });
  return (await hasSession(opened, thread)) ? thread : name;
}

async function hasSession({ storage }: OpenStorage, sessionId: SessionId): Promise<boolean> {
  return (await storage.readRefs({ sessionId, kind: 'branch' })).length > 0;
}

/** The session that was saved to last. A store of LangGraph is none, and a subgraph belongs to its thread. */
async function findLatestSession(opened: OpenStorage): Promise<SessionId | undefined> {
  const latest = (await opened.manager.latest())?.sessionId;
  const isPlain = latest !== undefined && !latest.startsWith(STORE_PREFIX) && threadOf(latest) === latest;
  return isPlain ? latest : findLatestByHeads(opened);
}

async function findLatestByHeads({ storage, manager }: OpenStorage): Promise<SessionId | undefined> {
  const refs = (await storage.readRefs({ kind: 'branch' })).map(checkRef);
  const known = new Set(refs.map(({ sessionId }) => sessionId));
  const [newest] = refs
    .filter(({ sessionId }) => !sessionId.startsWith(STORE_PREFIX))
    .sort((a, b) => (a.target < b.target ? 1 : -1));
  if (newest === undefined)
    return (await rankSessions(manager, true)).find(({ id }) => !id.startsWith(STORE_PREFIX))?.id;
  const thread = threadOf(newest.sessionId);
  return known.has(thread) ? thread : newest.sessionId;
}
