import type { PendingMessage } from './mailbox.ts';

/** What all versions of a queue share: messages in the order in which they came, and where the newest of each id stands. */
type Log = { readonly messages: PendingMessage[]; readonly places: Map<string, number> };

/** A part of the log in front of the queue this long, and longer than the queue, is given up. */
const MAX_PASSED = 64;

/**
 * The messages that wait, as of one moment. Adding and taking one makes a new queue in constant time, however many wait:
 * versions share one log, which only grows, and each knows its part of it. The list is made when somebody asks for it.
 */
export class MailboxQueue {
  readonly #log: Log;
  readonly #start: number;
  readonly #end: number;
  /** Stands for the first one of the log's part: its failures were counted since. */
  readonly #first: PendingMessage | undefined;
  #list: readonly PendingMessage[] | undefined;

  private constructor(log: Log, { start, end }: { start: number; end: number }, first?: PendingMessage) {
    this.#log = log;
    this.#start = start;
    this.#end = end;
    this.#first = first;
  }

  static from(messages: readonly PendingMessage[]): MailboxQueue {
    const places = new Map(messages.map(({ id }, at) => [id, at]));
    return new MailboxQueue({ messages: [...messages], places }, { start: 0, end: messages.length });
  }

  /** All of them, in order, frozen. */
  get list(): readonly PendingMessage[] {
    this.#list ??= Object.freeze(this.#rest(this.#first === undefined ? [] : [this.#first]));
    return this.#list;
  }

  #rest(before: PendingMessage[]): PendingMessage[] {
    return [...before, ...this.#log.messages.slice(this.#start + before.length, this.#end)];
  }

  find(id: string): PendingMessage | undefined {
    const at = this.#placeOf(id);
    return at === this.#start ? this.first : this.#log.messages[at ?? -1];
  }

  get first(): PendingMessage | undefined {
    return this.#start === this.#end ? undefined : (this.#first ?? this.#log.messages[this.#start]);
  }

  /** Where a message stands in the log, if it is of this queue. */
  #placeOf(id: string): number | undefined {
    const { messages, places } = this.#log;
    const at = places.get(id);
    if (at === undefined || (at >= this.#start && at < this.#end)) return at;
    // In an older version the id may stand where a newer one knows it no more.
    const older = this.#isNewest ? -1 : messages.slice(this.#start, this.#end).findIndex((one) => one.id === id);
    return older === -1 ? undefined : this.#start + older;
  }

  get #isNewest(): boolean {
    return this.#log.messages.length === this.#end;
  }

  add(message: PendingMessage): MailboxQueue {
    if (!this.#isNewest) return MailboxQueue.from(this.list).add(message);
    this.#log.places.set(message.id, this.#log.messages.push(message) - 1);
    return new MailboxQueue(this.#log, { start: this.#start, end: this.#end + 1 }, this.#first);
  }

  remove(id: string): MailboxQueue {
    const at = this.#placeOf(id);
    if (at === undefined) return this;
    if (at !== this.#start) return MailboxQueue.from(this.list.filter((message) => message.id !== id));
    const start = at + 1;
    const isWasteful = start > MAX_PASSED && start > this.#end - start;
    if (isWasteful) return MailboxQueue.from(this.#log.messages.slice(start, this.#end));
    return new MailboxQueue(this.#log, { start, end: this.#end });
  }

  /** Puts another in the place of the message with the same id. */
  replace(message: PendingMessage): MailboxQueue {
    if (this.#placeOf(message.id) === this.#start)
      return new MailboxQueue(this.#log, { start: this.#start, end: this.#end }, message);
    return MailboxQueue.from(this.list.map((one) => (one.id === message.id ? message : one)));
  }
}
