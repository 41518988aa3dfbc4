import { InvalidInputError, messageOf } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import { anything, checkOptions, type OptionChecks, oneOf } from '../../../core/options.ts';
import { name } from '../../../core/record/id.ts';
import type { InputDigest } from '../../../manager/effect/input-digest.ts';
import type { OpenWork } from '../../run/work.ts';
import type { ErrorText } from './error-text.ts';

/** A message to an agent. Its id is its identity: a second one with the same id is the same message. */
export type Message = {
  readonly id: string;
  readonly body: unknown;
  readonly from?: string;
  /**
   * What happens when the process dies while the message is handled. `at-least-once` (default): it is handled again.
   * `at-most-once`: it is set aside. A message whose handling ended is never handled again in either case.
   */
  readonly delivery?: 'at-least-once' | 'at-most-once';
};

/** A message as it is kept: with the digest of its body as it came, secrets included. */
export type KeptMessage = Message & { readonly digest?: InputDigest };

/** A message that waits, and how often handling it failed. */
export type PendingMessage = KeptMessage & { readonly failures: number };

/** A message that could not be handled and waits for a person. */
export type SetAsideMessage = {
  readonly message: KeptMessage;
  readonly error: ErrorText;
  readonly atMs: number;
  /** What was done for it, and is not done again if it is taken back. */
  readonly work?: OpenWork;
};

/** The messages of an agent. */
export type MailboxState = {
  /** In the order in which they are handled. */
  readonly pending: readonly PendingMessage[];
  readonly lastProcessed: { readonly id: string; readonly atMs: number } | null;
  readonly processedCount: number;
  /** Ids of messages that are over, oldest first, to know them again. */
  readonly recentIds: readonly string[];
  /** The digests of their bodies, as far as they are known. */
  readonly recentDigests?: readonly (readonly [id: string, digest: InputDigest])[];
  readonly setAside: readonly SetAsideMessage[];
};

/** A sender may repeat a message until this many others were handled. */
const MAX_RECENT_IDS = 1000;

const NO_MESSAGES = freezeState({ lastProcessed: null, processedCount: 0, recentIds: [], setAside: [] });
/** A mailbox without messages. */
export const EMPTY_MAILBOX: MailboxState = freezeState({ pending: [], ...NO_MESSAGES });

const MESSAGE: OptionChecks<Message> = {
  id: { required: name },
  body: anything,
  from: name,
  delivery: oneOf('at-least-once', 'at-most-once'),
};

/** Accepts a copy of a message, which its sender may go on changing, or throws. */
export function parseMessage(message: Message, copy: (body: unknown) => unknown): Message {
  checkOptions(message, MESSAGE, 'a message');
  const { id, body, from, delivery } = message;
  return {
    id,
    body: copyBody(id, () => copy(body)),
    ...(from !== undefined && { from }),
    ...(delivery !== undefined && { delivery }),
  };
}

function copyBody(id: string, copy: () => unknown): unknown {
  try {
    return copy();
  } catch (cause) {
    throw new InvalidInputError(`The body of message "${id}" cannot be kept. ${messageOf(cause)}`, { cause });
  }
}

/** The messages of an agent as they come and go. A change costs the same however many wait: their list is made when it is looked at. */
export class Mailbox {
  #waiting = new Map<string, PendingMessage>();
  #rest: Omit<MailboxState, 'pending'> = NO_MESSAGES;
  /** Goes through the waiting ones once: from the beginning it would pass by the places of all that were taken since. */
  #ids = this.#waiting.keys();
  #firstId: string | undefined;
  #state: MailboxState | undefined = EMPTY_MAILBOX;

  /** All of it at this moment, frozen. */
  get state(): MailboxState {
    this.#state ??= freezeState({ pending: [...this.#waiting.values()], ...this.#rest });
    return this.#state;
  }

  load(state: MailboxState): void {
    const { pending, ...rest } = state;
    this.#waiting = new Map(pending.map((message) => [message.id, message]));
    this.#ids = this.#waiting.keys();
    this.#firstId = undefined;
    this.#rest = rest;
    this.#state = state;
  }

  get setAside(): readonly SetAsideMessage[] {
    return this.#rest.setAside;
  }

  get first(): PendingMessage | undefined {
    if (this.#firstId === undefined) {
      const { value, done } = this.#ids.next();
      if (done === true) this.#ids = this.#waiting.keys(); // one that has come to its end stays there
      this.#firstId = value;
    }
    return this.#firstId === undefined ? undefined : this.#waiting.get(this.#firstId);
  }

  findPending(id: string): PendingMessage | undefined {
    return this.#waiting.get(id);
  }

  /** A message that waits or is set aside. */
  find(id: string): KeptMessage | undefined {
    return this.#waiting.get(id) ?? this.setAside.find(({ message }) => message.id === id)?.message;
  }

  /** Whether this message waits here, or is over and remembered. */
  isKnown(id: string): boolean {
    return this.find(id) !== undefined || this.#rest.recentIds.includes(id);
  }

  /** The digest of the body of a message that is known, as it came. */
  digestOf(id: string): InputDigest | undefined {
    return this.find(id)?.digest ?? this.#rest.recentDigests?.findLast(([recent]) => recent === id)?.[1];
  }

  /** Ids of the last messages that were handled after so many were. */
  handledSince(count: number): readonly string[] {
    const handled = this.#rest.processedCount - count;
    return handled > 0 ? this.#rest.recentIds.slice(-handled) : [];
  }

  /** Puts a message at the end, unless it is known. */
  add(message: KeptMessage): void {
    if (!this.isKnown(message.id)) this.#put({ ...message, failures: 0 });
  }

  /** Gives a message that waits or is set aside another body. */
  replaceBody({ id, body }: Message): void {
    const pending = this.#waiting.get(id);
    const replaced = (aside: SetAsideMessage): SetAsideMessage =>
      aside.message.id === id ? { ...aside, message: { ...aside.message, body } } : aside;
    if (pending !== undefined) this.#put({ ...pending, body });
    else this.#change({ setAside: this.setAside.map(replaced) });
  }

  /** Takes a message out as if it had never come. */
  remove(id: string): void {
    this.#waiting.delete(id);
    if (this.#firstId === id) this.#firstId = undefined;
    this.#state = undefined;
  }

  /** Notes that a message is handled. */
  finish(id: string, atMs: number): void {
    const digest = this.#waiting.get(id)?.digest;
    const { processedCount, recentIds, recentDigests = [] } = this.#rest;
    this.remove(id);
    this.#change({
      lastProcessed: { id, atMs },
      processedCount: processedCount + 1,
      recentIds: [...recentIds, id].slice(-MAX_RECENT_IDS),
      ...(digest !== undefined && { recentDigests: [...recentDigests, [id, digest] as const].slice(-MAX_RECENT_IDS) }),
    });
  }

  /** Notes that handling a message failed; it stays where it is, so order is kept. */
  countFailure(id: string): void {
    const pending = this.#waiting.get(id);
    if (pending !== undefined) this.#put({ ...pending, failures: pending.failures + 1 });
  }

  /** Takes a message out of the way; it stays known. */
  putAside(id: string, reason: Omit<SetAsideMessage, 'message'>): void {
    const pending = this.#waiting.get(id);
    if (pending === undefined) return;
    const { failures: _, ...message } = pending;
    this.remove(id);
    this.#change({ setAside: [...this.setAside, { message, ...reason }] });
  }

  /** Puts messages that were set aside back at the end, with a clean slate. */
  takeBack(ids: ReadonlySet<string>): void {
    const { setAside } = this;
    this.#change({ setAside: setAside.filter(({ message }) => !ids.has(message.id)) });
    for (const { message } of setAside) if (ids.has(message.id)) this.add(message);
  }

  #put(message: PendingMessage): void {
    this.#waiting.set(message.id, freezeState(message));
    this.#state = undefined;
  }

  #change(part: Partial<MailboxState>): void {
    this.#rest = freezeState({ ...this.#rest, ...part });
    this.#state = undefined;
  }
}
