import type { SessionId } from '../core/id.ts';
import type { EncodedState } from '../core/state-codec.ts';
import type { SaveOptions } from './save-options.ts';
import type { Session } from './session.ts';

/** Where the saves of a live object go, and what is known of it. */
export type Assignment = {
  readonly sessionId: SessionId;
  readonly open: () => Promise<Session>;
  /** The state it was restored from, as the next save needs it. */
  readonly before?: EncodedState | undefined;
  /** What its checkpoints said about it: holds until it or the caller says otherwise. */
  readonly defaults?: SaveOptions;
};

type Entry = {
  readonly assignment: Assignment;
  session?: Session;
  opening?: Promise<Session> | undefined;
  before: EncodedState | undefined;
};

/** Which session the saves of a live object go to. Opened at the first save, so that a mere restore writes nothing. */
export class AgentSessions {
  readonly #entries = new WeakMap<object, Entry>();

  assign(agent: object, assignment: Assignment): void {
    this.#entries.set(agent, { assignment, before: assignment.before });
  }

  /** What an object was assigned; nothing any more once its session was closed. */
  get(agent: object): Assignment | undefined {
    const entry = this.#entries.get(agent);
    return entry?.session?.isClosed === true ? undefined : entry?.assignment;
  }

  /** The session if it is open already: then a save needs not wait for it. */
  openSession(agent: object): Session | undefined {
    return this.#entries.get(agent)?.session;
  }

  /** Encodes a state before the session is open, on top of what is known. */
  capture(agent: object, encode: (before: EncodedState | undefined) => EncodedState): EncodedState {
    const entry = this.#entries.get(agent);
    const encoded = encode(entry?.before);
    if (entry !== undefined) entry.before = encoded;
    return encoded;
  }

  async open(agent: object): Promise<Session> {
    const entry = this.#entries.get(agent);
    if (entry === undefined) throw new TypeError('open needs an object that was assigned a session');
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
