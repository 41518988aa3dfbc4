import { InvalidInputError } from '../errors.ts';
import { accepts, checkValue, type OptionCheck } from '../options.ts';
import { isSealedName } from './sealed-name.ts';

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** The name of one checkpoint: `chk_` and 22 time-ordered characters. */
export type CheckpointId = Branded<'CheckpointId'>;

/** The caller's name for the recorded life of one agent or group. */
export type SessionId = Branded<'SessionId'>;

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const CHECKPOINT_ID = /^chk_[0-9a-hjkmnp-tv-z]{22}$/;
const SMALLEST = '0';
const GREATEST = 'z';
const PREFIX = 'chk_';
const TIME_CHARS = 10;
const TAIL_CHARS = 12;
const COUNTED_CHARS = 3;
/** So much of an id tells it from all others but by a rare chance: its time, and what is counted within one. */
export const SHORT_ID_CHARS = PREFIX.length + TIME_CHARS + COUNTED_CHARS;
const MAX_TIME_MS = 32 ** TIME_CHARS - 1;

/** No clock makes ids from here on (the year 19,800): they hold for their own descendants, and raise no other ids. */
const BEYOND_CLOCKS = 'chk_g';

/** Names longer than this are refused. */
export const MAX_NAME_CHARS = 512;

/** What an id source takes from the outside: time and randomness are arguments. */
type IdPorts = { readonly now: () => number; readonly randomBytes: (sizeBytes: number) => Uint8Array };

/** Makes ids; each is greater than every one made before it and than `after`. Throws an InvalidInputError if no id comes after that. */
export type CheckpointIds = (after?: CheckpointId) => CheckpointId;

/**
 * Makes checkpoint ids whose text order is the order of lineage: a child's id is greater than its parent's,
 * also when the clock stepped back in between. So storages sort by id and never by time.
 */
export function createCheckpointIds({ now, randomBytes }: IdPorts): CheckpointIds {
  let last = '';
  let lastMs = Number.NEGATIVE_INFINITY;
  return (after) => {
    const nowMs = now();
    const floor = after !== undefined && after > last ? after : last;
    const isCounted = nowMs <= lastMs && floor === last;
    const tail = formatRandom(randomBytes(TAIL_CHARS));
    const next = isCounted ? countUp(floor, tail) : idAt(nowMs, floor, tail);
    if (next < BEYOND_CLOCKS) [last, lastMs] = [next, isCounted ? lastMs : nowMs];
    return next as CheckpointId;
  };
}

/** The next id of the same moment: it differs early, so that a beginning of each that people can type tells them apart. */
function countUp(id: string, tail: string): string {
  const start = id.slice(0, SHORT_ID_CHARS);
  return start.endsWith(GREATEST.repeat(COUNTED_CHARS)) ? increment(id) : increment(start) + tail.slice(COUNTED_CHARS);
}

/** A tail of its own also beside a parent from the future: two processes must not count up from it alike. */
function idAt(nowMs: number, floor: string, tail: string): string {
  const time = `${PREFIX}${formatTime(nowMs)}`;
  const floorTime = floor.slice(0, -TAIL_CHARS);
  if (time > floorTime) return time + tail;
  return isLast(floorTime) ? increment(floor) : increment(floorTime) + tail;
}

/** An id made of a time and 60 bits: for what has a time-ordered name of its own already. */
export function formatCheckpointId(timeMs: number, tail: bigint): CheckpointId {
  return `${PREFIX}${formatTime(timeMs)}${formatBits(tail)}` as CheckpointId;
}

function formatBits(bits: bigint): string {
  let text = '';
  for (let rest = bits; text.length < TAIL_CHARS; rest >>= 5n) text = ALPHABET[Number(rest & 31n)] + text;
  return text;
}

/** Random bytes as the characters of ids, five bits each. */
export function formatRandom(bytes: Uint8Array): string {
  let text = '';
  for (const byte of bytes) text += ALPHABET[byte & 31];
  return text;
}

/** Asks for random bytes by the hundred: few at a time cost more than all the rest of an id. */
export function inBulk(randomBytes: IdPorts['randomBytes']): IdPorts['randomBytes'] {
  let spare: Uint8Array = new Uint8Array();
  let at = 0;
  return (sizeBytes) => {
    if (at + sizeBytes > spare.length) [spare, at] = [randomBytes(64 * sizeBytes), 0];
    at += sizeBytes;
    return spare.subarray(at - sizeBytes, at);
  };
}

/** The id that follows one directly: for a record that belongs next to another. */
export function idAfter(id: CheckpointId): CheckpointId {
  return increment(id) as CheckpointId;
}

/** The next id: the last character that is not the greatest goes up, those after it start again. */
function increment(id: string): string {
  if (isLast(id))
    throw new InvalidInputError(
      `Nothing can be saved after checkpoint ${id}: no id is greater. Fork from an earlier checkpoint, or begin a new session.`,
      { details: { id } },
    );
  let at = id.length - 1;
  while (id.charAt(at) === GREATEST) at--;
  return id.slice(0, at) + ALPHABET.charAt(ALPHABET.indexOf(id.charAt(at)) + 1) + SMALLEST.repeat(id.length - 1 - at);
}

function isLast(id: string): boolean {
  return id === PREFIX.padEnd(id.length, GREATEST);
}

function formatTime(timeMs: number): string {
  let rest = Math.min(Math.max(0, Math.trunc(timeMs)), MAX_TIME_MS);
  let text = '';
  for (let i = 0; i < TIME_CHARS; i++) {
    text = ALPHABET[rest % 32] + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

/** The time an id was made at, if it was made by a clock. */
export function timeOfId(id: CheckpointId): number {
  let timeMs = 0;
  for (const digit of id.slice(PREFIX.length, PREFIX.length + TIME_CHARS))
    timeMs = timeMs * 32 + ALPHABET.indexOf(digit);
  return timeMs;
}

/** Whether a text is a whole checkpoint id. */
export function isCheckpointId(text: string): text is CheckpointId {
  return CHECKPOINT_ID.test(text);
}

/** Whether a checkpoint id may begin like this. */
export function isCheckpointIdPart(text: string): boolean {
  return CHECKPOINT_ID.test(text.padEnd(PREFIX.length + TIME_CHARS + TAIL_CHARS, SMALLEST));
}

/** Accepts a session id or throws; any string of 1 to 512 characters without control characters will do, but no sealed name. */
export function parseSessionId(text: unknown): SessionId {
  const id = parseName(text, 'A session id') as SessionId;
  if (!isSealedName(id)) return id;
  throw new InvalidInputError(`"${id}" has the form of an encrypted name, which no session id may have.`);
}

/** Accepts a branch, tag, user, agent or type name or throws. Names are data: they never become paths or SQL. */
export function parseName(text: unknown, what: string): string {
  checkValue(text, name, what);
  return text as string;
}

/** The id of a user or an agent, as a state or a database has it. A number stands for its digits. */
export type GivenId = string | number | bigint;

/** Accepts the id of a user or an agent or throws; a number stands for its digits. */
export function parseId(id: unknown, what: string): string {
  checkValue(id, givenId, what);
  return String(id);
}

/** Accepts a name as `parseName` does, for the options of a call. */
export const name: OptionCheck = accepts(
  `a string of 1 to ${MAX_NAME_CHARS} characters without control characters`,
  isName,
);

/** Accepts an id as `parseId` does, for the options of a call. */
export const givenId: OptionCheck = accepts(
  `a string of 1 to ${MAX_NAME_CHARS} characters without control characters, or a number`,
  (value) => typeof value === 'bigint' || Number.isFinite(value) || isName(value),
);

/** Whether a value may be a name. */
export function isName(value: unknown): value is string {
  return (
    typeof value === 'string' && value.length > 0 && value.length <= MAX_NAME_CHARS && !hasControlOrLoneSurrogate(value)
  );
}

/** Whether a text holds what no name may. */
export function hasControlOrLoneSurrogate(text: string): boolean {
  return /\p{Cc}|\p{Cs}/u.test(text);
}
