import { InvalidInputError } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import { anything, checkOptions, type OptionChecks, oneOf } from '../../../core/options.ts';
import { name } from '../../../core/record/id.ts';
import type { OpenWork } from '../../run/work.ts';
import type { ErrorText } from './error-text.ts';
import { MailboxQueue } from './mailbox-queue.ts';

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

/** A message that waits, and how often handling it failed. */
export type PendingMessage = Message & { readonly failures: number };

/** A message that could not be handled and waits for a person. */
export type SetAsideMessage = {
  readonly message: Message;
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
  readonly setAside: readonly SetAsideMessage[];
};

/** A sender may repeat a message until this many others were handled. */
export const MAX_RECENT_IDS = 1000;

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
export function parseMessage(message: Message): Message {
  checkOptions(message, MESSAGE, 'a message');
  const { id, body, from, delivery } = message;
  return {
    id,
    body: copyBody(id, body),
    ...(from !== undefined && { from }),
    ...(delivery !== undefined && { delivery }),
  };
}

function copyBody(id: string, body: unknown): unknown {
  try {
    return structuredClone(body);
  } catch (cause) {
    throw new InvalidInputError(`The body of message "${id}" is not plain data, so it cannot be kept.`, { cause });
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

type Rest = Omit<MailboxState, 'pending'>;

/** A mailbox whose list of messages is made when somebody looks at it: with thousands waiting, a copy for each is too much. */
function withQueue(queue: MailboxQueue, rest: Rest): MailboxState {
  const { lastProcessed, processedCount, recentIds, setAside } = rest;
  const mailbox: MailboxState = {
    get pending() {
      return queue.list;
    },
    lastProcessed: Object.freeze(lastProcessed),
    processedCount,
    recentIds: Object.freeze(recentIds),
    setAside: Object.freeze(setAside),
  };
  queues.set(mailbox, queue);
  return Object.freeze(mailbox);
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
export function findMessage(mailbox: MailboxState, id: string): Message | undefined {
  return findPending(mailbox, id) ?? mailbox.setAside.find(({ message }) => message.id === id)?.message;
}

/** Whether this message waits here, or is over and remembered. */
export function isKnown(mailbox: MailboxState, id: string): boolean {
  return findMessage(mailbox, id) !== undefined || mailbox.recentIds.includes(id);
}

/** Puts a message at the end, unless it is known. */
export function addMessage(mailbox: MailboxState, message: Message): MailboxState {
  if (isKnown(mailbox, message.id)) return mailbox;
  return withQueue(queueOf(mailbox).add(waiting(message)), mailbox);
}

function waiting(message: Message): PendingMessage {
  return frozen({ ...message, failures: 0 });
}

function frozen(pending: PendingMessage): PendingMessage {
  freezeState(pending);
  return pending;
}

/** Gives a message that waits or is set aside another body. */
export function replaceBody(mailbox: MailboxState, { id, body }: Message): MailboxState {
  const pending = findPending(mailbox, id);
  const setAside = mailbox.setAside.map((aside) =>
    aside.message.id === id ? { ...aside, message: { ...aside.message, body } } : aside,
  );
  freezeState(setAside);
  const queue = queueOf(mailbox);
  const replaced = pending === undefined ? queue : queue.replace(frozen({ ...pending, body }));
  return withQueue(replaced, { ...restOf(mailbox), setAside });
}

/** Takes a message out as if it had never come. */
export function removeMessage(mailbox: MailboxState, id: string): MailboxState {
  return withQueue(queueOf(mailbox).remove(id), mailbox);
}

/** Notes that a message is handled. */
export function finishMessage(mailbox: MailboxState, id: string, atMs: number): MailboxState {
  return withQueue(queueOf(mailbox).remove(id), {
    ...restOf(mailbox),
    lastProcessed: { id, atMs },
    processedCount: mailbox.processedCount + 1,
    recentIds: [...mailbox.recentIds, id].slice(-MAX_RECENT_IDS),
  });
}

/** Without its messages, which would be listed. */
function restOf({ lastProcessed, processedCount, recentIds, setAside }: MailboxState): Rest {
  return { lastProcessed, processedCount, recentIds, setAside };
}

/** Notes that handling a message failed; it stays where it is, so order is kept. */
export function countFailure(mailbox: MailboxState, id: string): MailboxState {
  const pending = findPending(mailbox, id);
  if (pending === undefined) return mailbox;
  const failed = Object.freeze({ ...pending, failures: pending.failures + 1 });
  return withQueue(queueOf(mailbox).replace(failed), mailbox);
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
  const aside: SetAsideMessage = { message, ...reason };
  freezeState(aside);
  return withQueue(queueOf(mailbox).remove(id), { ...restOf(mailbox), setAside: [...mailbox.setAside, aside] });
}

/** Puts messages that were set aside back at the end, with a clean slate. */
export function takeBack(mailbox: MailboxState, ids: ReadonlySet<string>): MailboxState {
  let queue = queueOf(mailbox);
  for (const { message } of mailbox.setAside) if (ids.has(message.id)) queue = queue.add(waiting(message));
  return withQueue(queue, {
    ...restOf(mailbox),
    setAside: mailbox.setAside.filter(({ message }) => !ids.has(message.id)),
  });
}
