import type { EncodedState } from '../core/state-codec.ts';
import type { Session } from './session.ts';

type Entry = {
  readonly open: () => Promise<Session>;
  session: Session | undefined;
  opening: Promise<Session> | undefined;
  /** What is known of the state until the session is open and knows it itself. */
  before: EncodedState | undefined;
};

/** Which session the saves of a live object go to. Opened at the first save, so that a mere restore writes nothing. */
export class AgentSessions {
  readonly #entries = new WeakMap<object, Entry>();

  /** From now on this object's saves go where `open` says, on top of the state that `before` describes. */
  assign(agent: object, open: () => Promise<Session>, before?: EncodedState): void {
    this.#entries.set(agent, { open, session: undefined, opening: undefined, before });
  }

  has(agent: object): boolean {
    return this.#entries.has(agent);
  }

  /** The session if it is open already: then a save needs not wait for it. */
  get(agent: object): Session | undefined {
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
    if (entry === undefined) throw new TypeError('open needs an agent that was assigned a session');
    entry.opening ??= entry.open();
    try {
      entry.session = await entry.opening;
      entry.before = undefined;
    } catch (error) {
      entry.opening = undefined; // a later save may try again, and must bring everything
      entry.before = undefined;
      throw error;
    }
    return entry.session;
  }
}
