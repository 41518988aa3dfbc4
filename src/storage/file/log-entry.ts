import { isUtf8 } from 'node:buffer';
import { CorruptError } from '../../core/errors.ts';
import type { CheckpointHeader } from '../../core/record/checkpoint-header.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import { type ChunkContent, type Digest, digestText } from '../../core/tree/chunk.ts';
import type { Deletion, EffectRow, NewCheckpoint, RefChange } from '../contract.ts';

/** An effect as its entry keeps it; the session is the log's. */
type LoggedEffect = Omit<EffectRow, 'sessionId'>;

/** What one commit, or one deletion, changed. The log of a session is the whole truth; everything else is folded from it. */
export type LogContent = {
  readonly checkpoint?: NewCheckpoint;
  /** The checkpoint that this entry brought and a later entry deleted: its content is gone from here. */
  readonly erased?: { readonly id: CheckpointId; readonly digest: Digest };
  readonly deletions?: readonly Deletion[];
  readonly effects?: readonly LoggedEffect[];
  readonly refs?: readonly Omit<RefChange, 'expect'>[];
};

/** An entry and its place. `incarnation` tells the log from one of a deleted session that had the same id. */
export type LogEntry = LogContent & {
  readonly sessionId: SessionId;
  readonly incarnation: string;
  readonly number: number;
};

/** What opens a session's folder. */
export type SessionOpening = Pick<LogEntry, 'sessionId' | 'incarnation'>;

/** The file that it is in. */
export const OPENING_NAME = 'session.json';

const CHECKED_END = /^,\n {2}"check": "([0-9a-f]{64})"\n\}\n$/;
const CHECKED_END_CHARS = formatEnd('0'.repeat(64)).length;
const NUMBER_CHARS = 8;
// Indentation of deeper values would outgrow the values.
const MAX_READABLE_DEPTH = 16;

/** The file name of the n-th entry; its order is the order of the log. */
export function entryName(number: number): string {
  return `${String(number).padStart(NUMBER_CHARS, '0')}.json`;
}

/** Reads an entry's number from its file name; `undefined` if it is no such name. */
export function parseEntryName(name: string): number | undefined {
  const number = Number(/^(\d{8,})\.json$/.exec(name)?.[1] ?? 0);
  return number > 0 && entryName(number) === name ? number : undefined;
}

/**
 * Indented JSON whose last field is the digest of all text before it, so that one flipped bit anywhere is noticed
 * and people can still read the file.
 */
function formatChecked(content: object): string {
  const text = JSON.stringify(content, null, 2);
  const covered = text.slice(0, text.lastIndexOf('\n}'));
  return covered + formatEnd(digestText(covered));
}

function formatEnd(check: string): string {
  return `,\n  "check": "${check}"\n}\n`;
}

function parseChecked(bytes: Uint8Array, path: string): Record<string, unknown> {
  // Invalid UTF-8 must not turn into replacement characters: a damaged file has to look damaged.
  const text = isUtf8(bytes) ? Buffer.from(bytes).toString() : '';
  const covered = text.slice(0, -CHECKED_END_CHARS);
  const [, check] = CHECKED_END.exec(text.slice(-CHECKED_END_CHARS)) ?? [];
  if (check === undefined || check !== digestText(covered)) throw damaged(path);
  return JSON.parse(text) as Record<string, unknown>;
}

function damaged(path: string): CorruptError {
  return new CorruptError(`${path} is damaged: its content does not match its checksum.`, { details: { path } });
}

/** The text of a session's opening file. */
export function formatOpening({ sessionId, incarnation }: SessionOpening): string {
  return formatChecked({ session: sessionId, incarnation });
}

/** Reads an opening file; throws a CorruptError that names it. */
export function parseOpening(bytes: Uint8Array, path: string): SessionOpening {
  const { session, incarnation } = parseChecked(bytes, path) as { session: SessionId; incarnation: string };
  return { sessionId: session, incarnation };
}

/** The text of an entry's file. */
export function formatEntry({ sessionId, incarnation, number, checkpoint, effects, ...rest }: LogEntry): string {
  return formatChecked({
    session: sessionId,
    incarnation,
    number,
    ...(checkpoint && {
      checkpoint: {
        digest: checkpoint.digest,
        body: packText(checkpoint.body),
        root: packContent(checkpoint.root),
      },
    }),
    ...(effects && { effects: effects.map(packEffect) }),
    ...rest,
  });
}

/** How texts are in a file: as they are, or as the values they stand for. */
type Packed<Value> = {
  readonly [Key in keyof Value]: Key extends 'body' | 'text'
    ? unknown
    : Key extends 'root' | 'result'
      ? Packed<Value[Key]>
      : Value[Key];
};
type PackedEntry = Omit<LogEntry, 'sessionId' | 'checkpoint' | 'effects'> & {
  readonly session: SessionId;
  readonly checkpoint?: Packed<Omit<NewCheckpoint, 'header'>>;
  readonly effects?: readonly Packed<LoggedEffect>[];
  readonly check: string;
};

/** Reads an entry; throws a CorruptError that names its file. */
export function parseEntry(bytes: Uint8Array, path: string): LogEntry {
  const { session, checkpoint, effects, check: _, ...rest } = parseChecked(bytes, path) as PackedEntry;
  return {
    ...rest,
    sessionId: session,
    ...(checkpoint && { checkpoint: unpackCheckpoint(checkpoint) }),
    ...(effects && { effects: effects.map(unpackEffect) }),
  };
}

function unpackCheckpoint({ digest, body, root }: Packed<Omit<NewCheckpoint, 'header'>>): NewCheckpoint {
  const header = (typeof body === 'string' ? JSON.parse(body) : body) as CheckpointHeader;
  return { header, body: unpackText(body), digest, root: unpackContent(root) };
}

/**
 * Makes JSON text readable inside an entry: as the object or list it stands for if that gives back the same text, else as
 * the text itself. A string in a file is therefore always the text.
 */
function packText(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    const isReadable = typeof value === 'object' && value !== null && isShallow(value, MAX_READABLE_DEPTH);
    return isReadable && JSON.stringify(value) === text ? value : text;
  } catch (error) {
    if (error instanceof SyntaxError) return text;
    throw error;
  }
}

function isShallow(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  return levels > 0 && Object.values(value).every((child) => isShallow(child, levels - 1));
}

function unpackText(packed: unknown): string {
  return typeof packed === 'string' ? packed : JSON.stringify(packed);
}

const packContent = ({ text, refs }: ChunkContent): Packed<ChunkContent> => ({ text: packText(text), refs });
const unpackContent = ({ text, refs }: Packed<ChunkContent>): ChunkContent => ({ text: unpackText(text), refs });

function packEffect({ branch, ordinal, digest, body, result }: LoggedEffect): Packed<LoggedEffect> {
  return { branch, ordinal, digest, body: packText(body), ...(result && { result: packContent(result) }) };
}

function unpackEffect({ body, result, ...rest }: Packed<LoggedEffect>): LoggedEffect {
  return { ...rest, body: unpackText(body), ...(result && { result: unpackContent(result) }) };
}

const MAX_CHARS = 200;
const PLAIN = /^[a-z0-9_-]$/;

/**
 * The folder name of a session: `s-` and the id with everything but `a-z 0-9 _ -` percent-encoded, or `h-` and the digest of
 * that if it is long. So no id is a path or a device name, and ids that differ only in case differ also where case is ignored.
 */
export function encodeSessionId(sessionId: string): string {
  const encoded = Array.from(sessionId, encodeCharacter).join('');
  return encoded.length <= MAX_CHARS ? `s-${encoded}` : `h-${digestText(encoded)}`;
}

function encodeCharacter(character: string): string {
  if (PLAIN.test(character)) return character;
  const first = character.charCodeAt(0);
  // A lone surrogate has no UTF-8 form; it gets one of its own, so that two of them stay two.
  if (character.length === 1 && first >= 0xd800 && first <= 0xdfff) return `%u${first.toString(16)}`;
  return Array.from(Buffer.from(character), (byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}
