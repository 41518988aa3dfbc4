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

/** A mailbox without messages. */
export const EMPTY_MAILBOX: MailboxState = Object.freeze({
  pending: [],
  lastProcessed: null,
  processedCount: 0,
  recentIds: [],
  setAside: [],
});

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

/** What all versions of a queue share: messages in the order in which they came, and where the newest of each id stands. */
type Log = { readonly messages: PendingMessage[]; readonly places: Map<string, number> };

/** A part of the log in front of the queue this long, and longer than the queue, is given up. */
const MAX_PASSED = 64;

/**
 * The messages that wait, as of one moment. Adding one and taking the first make a new queue in constant time, however many
 * wait: versions share one log, which only grows, and each knows its part of it. The list is made when somebody asks for it.
 */
class MailboxQueue {
  readonly #log: Log;
  readonly #start: number;
  readonly #end: number;
  /** Stands for the first one of the log's part: its failures were counted since. */
  readonly #first: PendingMessage | undefined;
  #list: readonly PendingMessage[] | undefined;

  private constructor(log: Log, [start, end]: readonly [number, number], first?: PendingMessage) {
    this.#log = log;
    this.#start = start;
    this.#end = end;
    this.#first = first ?? log.messages[start];
  }

  static from(messages: readonly PendingMessage[]): MailboxQueue {
    const places = new Map(messages.map(({ id }, at) => [id, at]));
    return new MailboxQueue({ messages: [...messages], places }, [0, messages.length]);
  }

  /** All of them, in order, frozen. */
  get list(): readonly PendingMessage[] {
    const rest = () => this.#log.messages.slice(this.#start + 1, this.#end);
    this.#list ??= Object.freeze(this.first === undefined ? [] : [this.first, ...rest()]);
    return this.#list;
  }

  get first(): PendingMessage | undefined {
    return this.#start === this.#end ? undefined : this.#first;
  }

  find(id: string): PendingMessage | undefined {
    if (this.first?.id === id) return this.first;
    // Where an id stands now it need not have stood when this was the newest version.
    if (!this.#isNewest) return this.list.find((message) => message.id === id);
    const at = this.#log.places.get(id) ?? -1;
    return at < this.#start ? undefined : this.#log.messages[at];
  }

  get #isNewest(): boolean {
    return this.#log.messages.length === this.#end;
  }

  add(message: PendingMessage): MailboxQueue {
    if (!this.#isNewest) return MailboxQueue.from(this.list).add(message);
    this.#log.places.set(message.id, this.#log.messages.push(message) - 1);
    return new MailboxQueue(this.#log, [this.#start, this.#end + 1], this.first);
  }

  remove(id: string): MailboxQueue {
    if (this.find(id) === undefined) return this;
    const start = this.#start + 1;
    const isWasteful = start > MAX_PASSED && start > this.#end - start;
    if (this.first?.id !== id || isWasteful) return MailboxQueue.from(this.list.filter((message) => message.id !== id));
    return new MailboxQueue(this.#log, [start, this.#end]);
  }

  /** Puts another in the place of the message with the same id. */
  replace(message: PendingMessage): MailboxQueue {
    if (this.first?.id === message.id) return new MailboxQueue(this.#log, [this.#start, this.#end], message);
    return MailboxQueue.from(this.list.map((one) => (one.id === message.id ? message : one)));
  }
}

/** The queues of mailboxes that were made here; one that came from a checkpoint, or from the agent, gets its own when it is used. */
const queues = new WeakMap<MailboxState, MailboxQueue>();

function queueOf(mailbox: MailboxState): MailboxQueue {
  let queue = queues.get(mailbox);
  if (queue === undefined) {
    queue = MailboxQueue.from(mailbox.pending);
    queues.set(mailbox, queue);
  }
  return queue;
}

/** A mailbox whose list of messages is made when somebody looks at it: with thousands waiting, a copy for each is too much. */
function withQueue(mailbox: MailboxState, queue: MailboxQueue, changed: Partial<MailboxState> = {}): MailboxState {
  // Field by field, because a spread would make the list.
  const { lastProcessed, processedCount, recentIds, recentDigests, setAside } = mailbox;
  const rest = { lastProcessed, processedCount, recentIds, ...(recentDigests && { recentDigests }), setAside };
  const next = Object.defineProperty({ pending: [], ...rest, ...changed }, 'pending', { get: () => queue.list });
  for (const part of [next.lastProcessed, next.recentIds, next.recentDigests, next.setAside]) Object.freeze(part);
  queues.set(next, queue);
  return Object.freeze(next);
}

/** A message that waits. */
export function findPending(mailbox: MailboxState, id: string): PendingMessage | undefined {
  return queueOf(mailbox).find(id);
}

/** The message that is next. */
export function nextPending(mailbox: MailboxState): PendingMessage | undefined {
  return queueOf(mailbox).first;
}

/** A message that waits or is set aside. */
export function findMessage(mailbox: MailboxState, id: string): KeptMessage | undefined {
  return findPending(mailbox, id) ?? mailbox.setAside.find(({ message }) => message.id === id)?.message;
}

/** Whether this message waits here, or is over and remembered. */
export function isKnown(mailbox: MailboxState, id: string): boolean {
  return findMessage(mailbox, id) !== undefined || mailbox.recentIds.includes(id);
}

/** Puts a message at the end, unless it is known. */
export function addMessage(mailbox: MailboxState, message: KeptMessage): MailboxState {
  if (isKnown(mailbox, message.id)) return mailbox;
  return withQueue(mailbox, queueOf(mailbox).add(waiting(message)));
}

function waiting(message: KeptMessage): PendingMessage {
  return frozen({ ...message, failures: 0 });
}

function frozen<Value>(value: Value): Value {
  freezeState(value);
  return value;
}

/** Gives a message that waits or is set aside another body. */
export function replaceBody(mailbox: MailboxState, { id, body }: Message): MailboxState {
  const pending = findPending(mailbox, id);
  if (pending !== undefined) return withQueue(mailbox, queueOf(mailbox).replace(frozen({ ...pending, body })));
  const setAside = mailbox.setAside.map((aside) =>
    aside.message.id === id ? frozen({ ...aside, message: { ...aside.message, body } }) : aside,
  );
  return withQueue(mailbox, queueOf(mailbox), { setAside });
}

/** Takes a message out as if it had never come. */
export function removeMessage(mailbox: MailboxState, id: string): MailboxState {
  return withQueue(mailbox, queueOf(mailbox).remove(id));
}

/** The digest of the body of a message that is known, as it came. */
export function findDigest(mailbox: MailboxState, id: string): InputDigest | undefined {
  return findMessage(mailbox, id)?.digest ?? mailbox.recentDigests?.findLast(([recent]) => recent === id)?.[1];
}

/** Notes that a message is handled. */
export function finishMessage(mailbox: MailboxState, id: string, atMs: number): MailboxState {
  const digest = findPending(mailbox, id)?.digest;
  const known = mailbox.recentDigests ?? [];
  return withQueue(mailbox, queueOf(mailbox).remove(id), {
    lastProcessed: { id, atMs },
    processedCount: mailbox.processedCount + 1,
    recentIds: [...mailbox.recentIds, id].slice(-MAX_RECENT_IDS),
    ...(digest !== undefined && { recentDigests: [...known, [id, digest] as const].slice(-MAX_RECENT_IDS) }),
  });
}

/** Notes that handling a message failed; it stays where it is, so order is kept. */
export function countFailure(mailbox: MailboxState, id: string): MailboxState {
  const pending = findPending(mailbox, id);
  if (pending === undefined) return mailbox;
  return withQueue(mailbox, queueOf(mailbox).replace(frozen({ ...pending, failures: pending.failures + 1 })));
}

/** Takes a message out of the way; it stays known. */
export function setMessageAside(
  mailbox: MailboxState,
  id: string,
  reason: Omit<SetAsideMessage, 'message'>,
): MailboxState {
  const pending = findPending(mailbox, id);
  if (pending === undefined) return mailbox;
  const { failures: _, ...message } = pending;
  const aside = frozen({ message, ...reason });
  return withQueue(mailbox, queueOf(mailbox).remove(id), { setAside: [...mailbox.setAside, aside] });
}

/** Puts messages that were set aside back at the end, with a clean slate. */
export function takeBack(mailbox: MailboxState, ids: ReadonlySet<string>): MailboxState {
  const isBack = ({ message }: SetAsideMessage): boolean => ids.has(message.id);
  const { setAside } = mailbox;
  const queue = setAside.filter(isBack).reduce((all, { message }) => all.add(waiting(message)), queueOf(mailbox));
  return withQueue(mailbox, queue, { setAside: setAside.filter((aside) => !isBack(aside)) });
}
