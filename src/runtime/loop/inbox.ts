import type { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { type InputDigest, isSameInput } from '../../manager/effect/input-digest.ts';
import { refuseSecret } from '../../manager/engine/save-options.ts';
import { ACCEPT_STEP } from '../../manager/retention/retention-waiting.ts';
import type { Session } from '../../manager/session/session.ts';
import { findDigest, findMessage, isKnown, type KeptMessage, type Message, parseMessage } from './state/mailbox.ts';
import type { LiveAgent } from './turn/live-agent.ts';

type Parts = { readonly session: Session; readonly live: LiveAgent; readonly manager: CheckpointManager };

/** Takes messages in: each is recorded as a step, so it is durable as soon as it is accepted. */
export class Inbox {
  readonly #session: Session;
  readonly #live: LiveAgent;
  readonly #codec: StateCodec;
  readonly #plainCodec: StateCodec;
  readonly #arriving = new Map<string, { readonly digest: InputDigest; readonly arrival: Promise<void> }>();

  constructor({ session, live, manager }: Parts) {
    this.#session = session;
    this.#live = live;
    this.#codec = manager.engine.codec;
    this.#plainCodec = manager.engine.plainCodec;
  }

  /** Takes in again what an earlier process accepted after its last checkpoint. */
  async open(): Promise<void> {
    for (let isDone = false; !isDone; ) {
      // The first attempt at a step is the one that no recording answers. One that was in flight was never accepted.
      const message = await this.#session.step<KeptMessage | null>(ACCEPT_STEP, ({ attempt }) => {
        isDone = attempt === 1;
        return null;
      });
      if (message !== null) this.#live.receive(message);
    }
  }

  /** Accepts a message; returns whether it is a new one. Resolves when it is durable. */
  async deliver(given: Message): Promise<boolean> {
    // Copied as a save would, but for its secrets: the sender may change what it sent.
    const message = parseMessage(given, (body) => this.#plainCodec.copy(body));
    const { id } = message;
    refuseSecret(id, 'The id of a message', this.#codec); // redacted, it would not be known again
    const digest = this.#session.digestOf({ body: message.body });
    const arriving = this.#arriving.get(id);
    if (arriving !== undefined || isKnown(this.#live.state.mailbox, id)) {
      this.#repeat(message, digest);
      await arriving?.arrival;
      return false;
    }
    const arrival = this.#record({ ...message, digest });
    this.#arriving.set(id, { digest, arrival });
    try {
      await arrival;
      return true;
    } finally {
      this.#arriving.delete(id);
    }
  }

  /** A message that comes again must be the same; it brings along the secrets that were not stored with it. */
  #repeat(message: Message, digest: InputDigest): void {
    const { id } = message;
    const { mailbox } = this.#live.state;
    const stored = findMessage(mailbox, id);
    const storedDigest = stored && this.#session.digestOf({ body: stored.body });
    const before = this.#arriving.get(id)?.digest ?? findDigest(mailbox, id) ?? storedDigest;
    if (before !== undefined && !isSameInput(digest, before))
      throw new InvalidInputError(
        `Message "${id}" was delivered before with another body, so this one was not taken. Give it an id of its own.`,
        { details: { id } },
      );
    if (stored !== undefined && digest !== storedDigest) this.#live.completeMessage(message);
  }

  async #record(message: KeptMessage): Promise<void> {
    try {
      await this.#session.step(ACCEPT_STEP, () => {
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
