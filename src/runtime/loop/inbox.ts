import { InvalidInputError } from '../../core/errors.ts';
import { type InputDigest, isSameInput } from '../../manager/effect/input-digest.ts';
import { refuseSecret } from '../../manager/engine/save-options.ts';
import { ACCEPT_STEP } from '../../manager/retention/retention-protections.ts';
import type { LoopParts } from './loop-options.ts';
import { type KeptMessage, type Message, parseMessage } from './state/mailbox.ts';

/** Takes messages in: each is recorded as a step, so it is durable as soon as it is accepted. */
export class Inbox {
  readonly #parts: LoopParts;
  readonly #arriving = new Map<string, { readonly digest: InputDigest; readonly arrival: Promise<void> }>();

  constructor(parts: LoopParts) {
    this.#parts = parts;
  }

  /** Takes in again what an earlier process accepted after its last checkpoint. */
  async open(): Promise<void> {
    const { session, live } = this.#parts;
    for (let isDone = false; !isDone; ) {
      // The first attempt at a step is the one that no recording answers. One that was in flight was never accepted.
      const message = await session.step<KeptMessage | null>(ACCEPT_STEP, ({ attempt }) => {
        isDone = attempt === 1;
        return null;
      });
      if (message !== null) live.mailbox.add(message);
    }
  }

  /** Accepts a message; returns whether it is a new one. Resolves when it is durable. */
  async deliver(given: Message): Promise<boolean> {
    const { session, live, manager } = this.#parts;
    // Copied as a save would, but for its secrets: the sender may change what it sent.
    const message = parseMessage(given, (body) => manager.engine.plainCodec.copy(body));
    const { id } = message;
    refuseSecret(id, 'The id of a message', manager.engine.codec); // redacted, it would not be known again
    const digest = session.digestOf({ body: message.body });
    const arriving = this.#arriving.get(id);
    if (arriving !== undefined || live.mailbox.isKnown(id)) {
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
    const { session, live } = this.#parts;
    const stored = live.mailbox.find(id);
    const storedDigest = stored && session.digestOf({ body: stored.body });
    const before = this.#arriving.get(id)?.digest ?? live.mailbox.digestOf(id) ?? storedDigest;
    if (before !== undefined && !isSameInput(digest, before))
      throw new InvalidInputError(
        `Message "${id}" was delivered before with another body, so this one was not taken. Give it an id of its own.`,
        { details: { id } },
      );
    if (stored !== undefined && digest !== storedDigest) live.mailbox.replaceBody(message);
  }

  async #record(message: KeptMessage): Promise<void> {
    const { session, live } = this.#parts;
    try {
      await session.step(ACCEPT_STEP, () => {
        // Received before it is recorded: a checkpoint taken in between has it, and a replay knows it again.
        live.mailbox.add(message);
        return message;
      });
    } catch (error) {
      live.refuse(message.id);
      throw error;
    }
  }
}
