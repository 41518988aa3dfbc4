import type { Session } from '../../manager/session/session.ts';
import { isKnown, type Message, parseMessage } from './state/mailbox.ts';
import type { LiveAgent } from './turn/live-agent.ts';

const STEP = 'deliver';

/** Takes messages in: each is recorded as a step, so it is durable as soon as it is accepted. */
export class Inbox {
  readonly #session: Session;
  readonly #live: LiveAgent;
  readonly #arriving = new Map<string, Promise<void>>();

  constructor(session: Session, live: LiveAgent) {
    this.#session = session;
    this.#live = live;
  }

  /** Takes in again what an earlier process accepted after its last checkpoint. */
  async open(): Promise<void> {
    for (let isDone = false; !isDone; ) {
      // The first attempt at a step is the one that no recording answers. One that was in flight was never accepted.
      const message = await this.#session.step<Message | null>(STEP, ({ attempt }) => {
        isDone = attempt === 1;
        return null;
      });
      if (message !== null) this.#live.receive(message);
    }
  }

  /** Accepts a message; answers whether it is a new one. Resolves when it is durable. */
  async deliver(given: Message): Promise<boolean> {
    const message = parseMessage(given);
    const arriving = this.#arriving.get(message.id);
    if (arriving !== undefined || isKnown(this.#live.state.mailbox, message.id)) {
      await arriving;
      return false;
    }
    const arrival = this.#record(message);
    this.#arriving.set(message.id, arrival);
    try {
      await arrival;
      return true;
    } finally {
      this.#arriving.delete(message.id);
    }
  }

  async #record(message: Message): Promise<void> {
    try {
      await this.#session.step(STEP, () => {
        // Received before it is recorded: a checkpoint taken in between has it, and a replay knows it again.
        this.#live.receive(message);
        return message;
      });
    } catch (error) {
      this.#live.refuse(message.id);
      throw error;
    }
  }
}
