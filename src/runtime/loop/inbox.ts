import { InvalidInputError } from '../../core/errors.ts';
import { type InputDigest, isSameInput } from '../../manager/effect/input-digest.ts';
import type { Session } from '../../manager/session/session.ts';
import { findMessage, isKnown, MAX_RECENT_IDS, type Message, parseMessage } from './state/mailbox.ts';
import type { LiveAgent } from './turn/live-agent.ts';

const STEP = 'deliver';

/** Takes messages in: each is recorded as a step, so it is durable as soon as it is accepted. */
export class Inbox {
  readonly #session: Session;
  readonly #live: LiveAgent;
  readonly #arriving = new Map<string, Promise<void>>();
  /** Of what was delivered to this process. */
  readonly #digests = new Map<string, InputDigest>();

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
    const { id } = message;
    const digest = this.#digestOf(message);
    const arriving = this.#arriving.get(id);
    if (arriving !== undefined || isKnown(this.#live.state.mailbox, id)) {
      this.#repeat(message, digest);
      await arriving;
      return false;
    }
    const arrival = this.#record(message);
    this.#arriving.set(id, arrival);
    this.#note(id, digest);
    try {
      await arrival;
      return true;
    } finally {
      this.#arriving.delete(id);
    }
  }

  #digestOf({ body }: Message): InputDigest {
    return this.#session.digestOf({ body });
  }

  #note(id: string, digest: InputDigest): void {
    this.#digests.set(id, digest);
    const [oldest] = this.#digests.keys();
    if (this.#digests.size > MAX_RECENT_IDS && oldest !== undefined) this.#digests.delete(oldest);
  }

  /** A message that comes again must be the same, as far as is known; it brings along the secrets that were not stored with it. */
  #repeat(message: Message, digest: InputDigest): void {
    const { id } = message;
    const stored = findMessage(this.#live.state.mailbox, id);
    const before = this.#digests.get(id) ?? (stored && this.#digestOf(stored));
    if (before === undefined) return; // an earlier process handled it, and only its id is remembered
    if (!isSameInput(digest, before))
      throw new InvalidInputError(
        `Message "${id}" was delivered before with another body, so this one was not taken. Give it an id of its own.`,
        { details: { id } },
      );
    if (digest.length > before.length) this.#live.completeMessage(message);
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
      this.#digests.delete(message.id);
      throw error;
    }
  }
}
