import type { EncodedState } from '../../core/codec/state-codec.ts';
import { ConflictError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { SaveOptions } from '../engine/save-options.ts';
import type { SessionWriter } from '../write/session-writer.ts';

/** Where the saves of a live object go, and what is known of it. */
export type Assignment = {
  readonly sessionId: SessionId;
  readonly open: () => Promise<SessionWriter>;
  /** It is named by the id of the object: the caller said nothing. */
  readonly isById?: boolean;
  /** It is alone in that: who saves after another object of its class and id has, would save over what it does not know. */
  readonly isAlone?: boolean;
  /** The state it was restored from, as the next save needs it. */
  readonly before?: EncodedState | undefined;
  /** What its checkpoints said about it: holds until it or the caller says otherwise. */
  readonly defaults?: SaveOptions;
};

type Entry = {
  readonly assignment: Assignment;
  hasSaved: boolean;
  session?: SessionWriter;
  opening?: Promise<SessionWriter> | undefined;
  before: EncodedState | undefined;
  /** Saves that wait for the session to open: later ones must not overtake them. */
  waiting: number;
};

/** Which session the saves of a live object go to. Opened at the first save, so that a mere restore writes nothing. */
export class AgentSessions {
  readonly #entries = new WeakMap<object, Entry>();
  /** Who saved last, of those that are to be alone. */
  readonly #last = new WeakMap<SessionWriter, Entry | undefined>();

  assign(agent: object, assignment: Assignment): void {
    this.#entries.set(agent, { assignment, hasSaved: false, before: assignment.before, waiting: 0 });
  }

  /** What an object was assigned; nothing any more once its session was closed. */
  get(agent: object): Assignment | undefined {
    const entry = this.#entries.get(agent);
    return entry?.session?.isClosed === true ? undefined : entry?.assignment;
  }

  /** The session if it is open already: then a save needs not wait for it. */
  openSession(agent: object): SessionWriter | undefined {
    const entry = this.#entries.get(agent);
    return entry?.waiting === 0 ? entry.session : undefined;
  }

  /** Encodes a state before the session is open, on top of what is known. */
  capture(agent: object, encode: (before: EncodedState | undefined) => EncodedState): EncodedState {
    const entry = this.#entryOf(agent);
    entry.before = encode(entry.before);
    return entry.before;
  }

  /** Saves as soon as the session is open, in the order of the calls, unless another object that is to be alone saved since this one did. */
  async save<Result>(agent: object, save: (session: SessionWriter) => Promise<Result>): Promise<Result> {
    const entry = this.#entryOf(agent);
    const session = this.openSession(agent);
    if (session !== undefined) return this.#saveAlone(agent, session, save);
    entry.waiting++;
    try {
      return this.#saveAlone(agent, await this.#open(entry), save);
    } finally {
      entry.waiting--;
    }
  }

  async #saveAlone<Result>(
    agent: object,
    session: SessionWriter,
    save: (session: SessionWriter) => Promise<Result>,
  ): Promise<Result> {
    const entry = this.#entryOf(agent);
    if (entry.assignment.isAlone !== true) return save(session);
    const { hasSaved } = entry;
    const last = this.#last.get(session);
    if (hasSaved && last !== entry) throw overtaken(agent, session);
    entry.hasSaved = true;
    this.#last.set(session, entry);
    try {
      return await save(session);
    } catch (error) {
      entry.hasSaved = hasSaved;
      if (this.#last.get(session) === entry) this.#last.set(session, last);
      throw error;
    }
  }

  async #open(entry: Entry): Promise<SessionWriter> {
    entry.opening ??= entry.assignment.open();
    try {
      entry.session = await entry.opening;
      return entry.session;
    } catch (error) {
      entry.opening = undefined; // a later save may try again
      throw error;
    } finally {
      entry.before = undefined; // from here on the session knows, or the next save must bring everything
    }
  }

  #entryOf(agent: object): Entry {
    const entry = this.#entries.get(agent);
    if (entry === undefined) throw new TypeError('an object saves after it was assigned a session');
    return entry;
  }
}

function overtaken(agent: object, { id }: SessionWriter): ConflictError {
  return new ConflictError(
    `Another ${agent.constructor.name} with the id "${id}" has saved to session "${id}" since this one did. Restore this one from the newest checkpoint to go on, give it an id of its own, or pass { sessionId } to save if both belong together.`,
    { details: { sessionId: id } },
  );
}

/** An id names one object: of another class or user it is another one, unless the caller says that both belong together. */
export function checkOwner({ id, head }: SessionWriter, { agentType, userId }: SaveOptions): void {
  if (agentType === undefined || head === undefined) return;
  const user = userId === undefined ? undefined : String(userId);
  const isOtherType = differ(head.agentType, agentType);
  if (!isOtherType && !differ(head.userId, user)) return;
  const [found, expected] = isOtherType ? [head.agentType, agentType] : [`user "${head.userId}"`, `user "${user}"`];
  throw new ConflictError(
    `Session "${id}" has checkpoints of ${found}, and this is of ${expected} with the same id. Give it an id of its own, or pass { sessionId } to save if both belong together.`,
    { details: { sessionId: id, expected, found } },
  );
}

/** Whether two names are known and not the same. */
export function differ(one: string | undefined, other: string | undefined): boolean {
  return one !== undefined && other !== undefined && one !== other;
}
