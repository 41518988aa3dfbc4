import type { Session } from './session.ts';

type Entry = {
  readonly open: () => Promise<Session>;
  session: Session | undefined;
  opening: Promise<Session> | undefined;
};

/** Which session the saves of a live object go to. Opened at the first save, so that a mere restore writes nothing. */
export class AgentSessions {
  readonly #entries = new WeakMap<object, Entry>();

  /** From now on this object's saves go where `open` says. */
  assign(agent: object, open: () => Promise<Session>): void {
    this.#entries.set(agent, { open, session: undefined, opening: undefined });
  }

  has(agent: object): boolean {
    return this.#entries.has(agent);
  }

  /** The session if it is open already: then a save needs not wait for it. */
  get(agent: object): Session | undefined {
    return this.#entries.get(agent)?.session;
  }

  async open(agent: object): Promise<Session> {
    const entry = this.#entries.get(agent);
    if (entry === undefined) throw new TypeError('open needs an agent that was assigned a session');
    entry.opening ??= entry.open();
    try {
      entry.session = await entry.opening;
    } catch (error) {
      entry.opening = undefined; // a later save may try again
      throw error;
    }
    return entry.session;
  }
}
