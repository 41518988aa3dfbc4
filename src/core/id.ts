import { InvalidInputError } from './errors.ts';

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** The name of one checkpoint: `chk_` and 22 time-ordered characters. */
export type CheckpointId = Branded<'CheckpointId'>;

/** The caller's name for the recorded life of one agent or group. */
export type SessionId = Branded<'SessionId'>;

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const CHECKPOINT_ID = /^chk_[0-9a-hjkmnp-tv-z]{22}$/;
const PREFIX = 'chk_';
const TIME_CHARS = 10;
const TAIL_CHARS = 12;
const MAX_NAME_CHARS = 512;

/** What an id source takes from the outside: time and randomness are arguments. */
export type IdPorts = { readonly now: () => number; readonly randomBytes: (sizeBytes: number) => Uint8Array };

/** Makes ids; each is greater than every one made before it and than `after`. */
export type CheckpointIds = (after?: CheckpointId) => CheckpointId;

/**
 * Makes checkpoint ids whose text order is the order of lineage: a child's id is greater than its parent's,
 * also when the clock stepped back in between. So storages sort by id and never by time.
 */
export function createCheckpointIds({ now, randomBytes }: IdPorts): CheckpointIds {
  let last = '';
  return (after) => {
    const fresh = `${PREFIX}${formatTime(now())}${formatTail(randomBytes(TAIL_CHARS))}`;
    const floor = after !== undefined && after > last ? after : last;
    last = fresh.slice(0, -TAIL_CHARS) > floor.slice(0, -TAIL_CHARS) ? fresh : increment(floor);
    return last as CheckpointId;
  };
}

function formatTail(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => ALPHABET[byte & 31]).join('');
}

function increment(id: string): string {
  const digits = Array.from(id.slice(PREFIX.length), (char) => ALPHABET.indexOf(char));
  for (let i = digits.length - 1; i >= 0; i--) {
    const next = ((digits[i] ?? 0) + 1) & 31;
    digits[i] = next;
    if (next !== 0) break;
  }
  return PREFIX + digits.map((digit) => ALPHABET[digit]).join('');
}

function formatTime(timeMs: number): string {
  let rest = timeMs;
  let text = '';
  for (let i = 0; i < TIME_CHARS; i++) {
    text = ALPHABET[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

/** Whether a text is a whole checkpoint id. */
export function isCheckpointId(text: string): text is CheckpointId {
  return CHECKPOINT_ID.test(text);
}

/** Accepts a session id or throws; any text of 1 to 512 characters without control characters will do. */
export function parseSessionId(text: unknown): SessionId {
  return parseName(text, 'A session id') as SessionId;
}

/** Accepts a branch, tag, user, agent or type name or throws. Names are data: they never become paths or SQL. */
export function parseName(text: unknown, what: string): string {
  if (
    typeof text !== 'string' ||
    text.length === 0 ||
    text.length > MAX_NAME_CHARS ||
    hasControlOrLoneSurrogate(text)
  ) {
    throw new InvalidInputError(
      `${what} must be a text of 1 to ${MAX_NAME_CHARS} characters without control characters; found ${describe(text)}.`,
    );
  }
  return text;
}

function hasControlOrLoneSurrogate(text: string): boolean {
  return /\p{Cc}|\p{Cs}/u.test(text);
}

function describe(value: unknown): string {
  if (typeof value !== 'string') return value === null ? 'null' : typeof value;
  return value.length > 40 ? `a text of ${value.length} characters` : JSON.stringify(value);
}
