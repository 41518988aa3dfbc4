import type { EncodedState } from '../../core/codec/state-codec.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { SaveOptions } from '../engine/save-options.ts';
import type { SessionWriter } from '../write/session-writer.ts';

/** Where the saves of a live object go, and what is known of it. */
export type Assignment = {
  readonly sessionId: SessionId;
  readonly open: () => Promise<SessionWriter>;
  /** It is named by the id of the object: the caller said nothing. */
  readonly isById?: boolean;
  /** The state it was restored from, as the next save needs it. */
  readonly before?: EncodedState | undefined;
  /** What its checkpoints said about it: holds until it or the caller says otherwise. */
  readonly defaults?: SaveOptions;
};

type Entry = {
  readonly assignment: Assignment;
  session?: SessionWriter;
  opening?: Promise<SessionWriter> | undefined;
  before: EncodedState | undefined;
  /** Saves that wait for the session to open: later ones must not overtake them. */
  waiting: number;
};

/** Which session the saves of a live object go to. Opened at the first save, so that a mere restore writes nothing. */
export class AgentSessions {
  readonly #entries = new WeakMap<object, Entry>();

  assign(agent: object, assignment: Assignment): void {
    this.#entries.set(agent, { assignment, before: assignment.before, waiting: 0 });
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
    const entry = this.#entries.get(agent);
    const encoded = encode(entry?.before);
    if (entry !== undefined) entry.before = encoded;
    return encoded;
  }

  /** Uses the session as soon as it is open, in the order of the calls. */
  async whenOpen<Result>(agent: object, use: (session: SessionWriter) => Promise<Result>): Promise<Result> {
    const entry = this.#entries.get(agent);
    if (entry === undefined) throw new TypeError('whenOpen needs an object that was assigned a session');
    entry.waiting++;
    try {
      const session = await this.#open(entry);
      return use(session);
    } finally {
      entry.waiting--;
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
}
