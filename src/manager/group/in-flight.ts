import { ConflictError, InvalidInputError } from '../../core/errors.ts';

/** What a member sent to one other member. Messages of one direction are numbered from 1. */
export type SentMessages = {
  /** How many it ever sent there, which is the number of the last one. */
  readonly count: number;
  /** The last of them, in order, as far as they may not have arrived: the last one has the number `count`. */
  readonly unconfirmed: readonly unknown[];
};

/** What a member says about its messages at a cut; a member without channels says nothing. */
export type GivenChannels = {
  /** By the name of the member they went to. */
  readonly sent?: { readonly [to: string]: SentMessages } | undefined;
  /** The number of the last message that arrived, by the name of the member it came from. */
  readonly received?: { readonly [from: string]: number } | undefined;
};

/** The same, checked. As maps, because a name may be any text. */
export type Channels = {
  readonly sent: ReadonlyMap<string, SentMessages>;
  readonly received: ReadonlyMap<string, number>;
};

/** A message that was sent before the cut and had not arrived by then. */
export type InFlightMessage = {
  readonly from: string;
  readonly to: string;
  readonly number: number;
  readonly message: unknown;
};

/** Checks what a member says about its messages. */
export function parseChannels(member: string, { sent = {}, received = {} }: GivenChannels): Channels {
  return {
    sent: new Map(Object.entries(sent).map(([to, given]) => [to, parseSent(given, `sent by "${member}" to "${to}"`)])),
    received: new Map(
      Object.entries(received).map(([from, last]) => [from, parseCount(last, `"${member}" received from "${from}"`)]),
    ),
  };
}

function parseSent({ count, unconfirmed }: SentMessages, what: string): SentMessages {
  parseCount(count, what);
  if (Array.isArray(unconfirmed) && unconfirmed.length <= count) return { count, unconfirmed };
  throw new InvalidInputError(`The unconfirmed messages ${what} must be a list of at most ${count} messages.`);
}

function parseCount(count: unknown, what: string): number {
  if (typeof count === 'number' && Number.isSafeInteger(count) && count >= 0) return count;
  throw new InvalidInputError(
    `The count of messages ${what} must be a whole number from 0 on; found ${String(count)}.`,
  );
}

/**
 * The messages that were under way when the members were cut: by sender, then by receiver, then in the order of sending.
 * Throws a ConflictError if the cut is not consistent, that is, if no moment of the group's life can have looked like it.
 */
export function findInFlight(members: ReadonlyMap<string, Channels>): InFlightMessage[] {
  const messages: InFlightMessage[] = [];
  for (const [from, { sent, received }] of members) {
    for (const other of [...sent.keys(), ...received.keys()]) checkIsMember(members, from, other);
    for (const [to, { received: arrived }] of members)
      messages.push(...findBetween({ from, to }, sent.get(to) ?? NOTHING, arrived.get(from) ?? 0));
  }
  return messages;
}

const NOTHING: SentMessages = { count: 0, unconfirmed: [] };

function checkIsMember(members: ReadonlyMap<string, Channels>, name: string, other: string): void {
  if (members.has(other)) return;
  throw new InvalidInputError(
    `Member "${name}" speaks of messages to or from "${other}", which is not a member of this cut (${[...members.keys()].join(', ')}).`,
    { details: { member: name, other } },
  );
}

function findBetween(
  { from, to }: { readonly from: string; readonly to: string },
  { count, unconfirmed }: SentMessages,
  received: number,
): InFlightMessage[] {
  const missing = count - received;
  if (missing < 0) {
    throw new ConflictError(
      `The cut is not consistent: "${to}" received message ${received} of "${from}", which had sent ${count} by then. Members must not send during a cut.`,
      { details: { from, to, number: received } },
    );
  }
  if (missing > unconfirmed.length) {
    throw new ConflictError(
      `The cut is not consistent: message ${received + 1} from "${from}" to "${to}" had not arrived, and "${from}" does not have it any more. Members must not confirm messages during a cut.`,
      { details: { from, to, number: received + 1 } },
    );
  }
  return unconfirmed
    .slice(unconfirmed.length - missing)
    .map((message, at) => ({ from, to, number: received + 1 + at, message }));
}
