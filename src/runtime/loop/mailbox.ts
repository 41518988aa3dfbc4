import { InvalidInputError } from '../../core/errors.ts';
import { parseName } from '../../core/id.ts';
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

/** A message that waits, and how often handling it failed. */
export type PendingMessage = Message & { readonly failures: number };

/** A message that could not be handled and waits for a person. */
export type SetAsideMessage = { readonly message: Message; readonly error: ErrorText; readonly atMs: number };

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
const MAX_RECENT_IDS = 1000;

/** A mailbox without messages. */
export const EMPTY_MAILBOX: MailboxState = Object.freeze({
  pending: [],
  lastProcessed: null,
  processedCount: 0,
  recentIds: [],
  setAside: [],
});

/** Accepts a copy of a message, which its sender may go on changing, or throws. */
export function parseMessage(message: Message): Message {
  const { id, body, from, delivery } = message;
  parseName(id, 'A message id');
  if (delivery !== undefined && delivery !== 'at-least-once' && delivery !== 'at-most-once')
    throw new InvalidInputError(
      `The delivery of message "${id}" is ${JSON.stringify(delivery)}; allowed: at-least-once, at-most-once.`,
    );
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

/** Whether this message waits here, or is over and remembered. */
export function isKnown({ pending, recentIds, setAside }: MailboxState, id: string): boolean {
  return (
    pending.some((message) => message.id === id) ||
    recentIds.includes(id) ||
    setAside.some(({ message }) => message.id === id)
  );
}

/** Puts a message at the end, unless it is known. */
export function addMessage(mailbox: MailboxState, message: Message): MailboxState {
  if (isKnown(mailbox, message.id)) return mailbox;
  return { ...mailbox, pending: [...mailbox.pending, { ...message, failures: 0 }] };
}

/** Notes that a message is handled. */
export function finishMessage(mailbox: MailboxState, id: string, atMs: number): MailboxState {
  return {
    ...mailbox,
    pending: without(mailbox.pending, id),
    lastProcessed: { id, atMs },
    processedCount: mailbox.processedCount + 1,
    recentIds: [...mailbox.recentIds, id].slice(-MAX_RECENT_IDS),
  };
}

/** Notes that handling a message failed; it stays where it is, so order is kept. */
export function countFailure(mailbox: MailboxState, id: string): MailboxState {
  const pending = mailbox.pending.map((message) =>
    message.id === id ? { ...message, failures: message.failures + 1 } : message,
  );
  return { ...mailbox, pending };
}

/** Takes a message out of the way; it stays known. */
export function setMessageAside(
  mailbox: MailboxState,
  id: string,
  { error, atMs }: { error: ErrorText; atMs: number },
): MailboxState {
  const pending = mailbox.pending.find((message) => message.id === id);
  if (pending === undefined) return mailbox;
  const { failures: _, ...message } = pending;
  const setAside = [...mailbox.setAside, { message, error, atMs }];
  return { ...mailbox, pending: without(mailbox.pending, id), setAside };
}

/** Puts messages that were set aside back at the end, with a clean slate. */
export function takeBack(mailbox: MailboxState, ids: ReadonlySet<string>): MailboxState {
  const back = mailbox.setAside.filter(({ message }) => ids.has(message.id));
  return {
    ...mailbox,
    setAside: mailbox.setAside.filter(({ message }) => !ids.has(message.id)),
    pending: [...mailbox.pending, ...back.map(({ message }) => ({ ...message, failures: 0 }))],
  };
}

function without(pending: readonly PendingMessage[], id: string): PendingMessage[] {
  return pending.filter((message) => message.id !== id);
}
