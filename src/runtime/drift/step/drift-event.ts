import { boundName } from './bounded.ts';

/** What an event is about; anything else is read as `message`. */
const EVENT_KINDS = [
  'goal',
  'system',
  'plan',
  'thought',
  'message',
  'call',
  'result',
  'error',
  'cycle',
  'finish',
] as const;
type DriftEventKind = (typeof EVENT_KINDS)[number];

/**
 * One thing an agent did or met, in the words of no framework. Every field may be absent: a signal that needs it stays
 * silent.
 */
export type DriftEvent = {
  /** Guessed from the other fields when absent or unknown. */
  readonly kind?: DriftEventKind | string;
  /** Who acted. */
  readonly agent?: string;
  /** `user`, `system` and `tool` are not watched for repeating themselves. */
  readonly role?: 'agent' | 'user' | 'system' | 'tool' | string;
  /** The tool that was called, or that answered. */
  readonly name?: string;
  /** Joins a result to its call; without it results go to the oldest open call of their name. */
  readonly callId?: string;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly text?: string;
  readonly isError?: boolean;
  /** Milliseconds on any clock that does not run backwards. */
  readonly at?: number;
  /** The size of the context after this event. */
  readonly contextTokens?: number;
  /** The digest of the agent's whole state before this event, as a checkpoint has it. */
  readonly stateDigest?: string;
  /** What this is done for: a message, a request, a task. Absent: a person who says something new begins another job. */
  readonly job?: string;
};

/** An event with its gaps filled, and its place in the stream. */
export type ReadEvent = Readonly<ReturnType<typeof readEvent>>;

/** The fields of an event before it is known what they hold. */
type EventFields = { readonly [Field in keyof DriftEvent]?: unknown };

const NO_FIELDS: EventFields = Object.freeze({});

const KINDS: ReadonlySet<string> = new Set(EVENT_KINDS);

const NOT_AGENTS = setOf('user human system developer tool function env environment');

/** Names of calls by which agents of many frameworks hand in their answer. */
const FINISHING_NAMES = setOf(
  'answer attempt_completion complete_task done final_answer finish submit submit_answer terminate',
);

function setOf(words: string): ReadonlySet<string> {
  return new Set(words.split(' '));
}

/** Reads an event and fills its gaps; never throws. What is no event, or cannot be read, counts as an empty one. */
export function readEvent(event: unknown, index: number) {
  const fields = fieldsOf(event);
  const kind = kindOf(fields);
  const role = nameField(fields.role);
  const agent = nameField(fields.agent) ?? role ?? (kind === 'goal' ? 'user' : 'agent');
  return {
    index,
    kind,
    agent,
    /** Whether an agent said it, not a person, a tool or the environment. */
    isAgent: !NOT_AGENTS.has((role ?? agent).toLowerCase()),
    name: nameField(fields.name) ?? '',
    callId: nameField(fields.callId),
    /** What was said or answered. */
    text: textField(fields.text) ?? textOf(kind === 'finish' ? (fields.output ?? fields.input) : fields.output),
    input: fields.input,
    isError: fields.isError === true || kind === 'error',
    at: numberField(fields.at),
    contextTokens: numberField(fields.contextTokens),
    stateDigest: nameField(fields.stateDigest),
    job: nameField(fields.job),
  };
}

/** The fields of an event, whatever they hold, each read once; none if it is no object, or one that throws when it is read. */
export function fieldsOf(event: unknown): EventFields {
  if (typeof event !== 'object' || event === null) return NO_FIELDS;
  try {
    const { kind, agent, role, name, callId, input, output } = event as EventFields;
    const { text, isError, at, contextTokens, stateDigest, job } = event as EventFields;
    return { kind, agent, role, name, callId, input, output, text, isError, at, contextTokens, stateDigest, job };
  } catch {
    // A getter threw, or a proxy was revoked: the watched agent must not be stopped by how it tells what it does.
    return NO_FIELDS;
  }
}

/** Whether a call hands in the answer. */
export function isFinishing(event: ReadEvent): boolean {
  return event.kind === 'finish' || (event.kind === 'call' && FINISHING_NAMES.has(event.name.toLowerCase()));
}

/** A value as text: its leaves in the order of their keys, so that equal inputs read alike however they were built. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : leavesOf(value).join(' ');
}

/** The texts, numbers and flags in a value, as texts, in the order of their keys; none if it throws when it is read. */
export function leavesOf(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  const harvest: Harvest = { leaves: [], partsLeft: MAX_PARTS, charsLeft: MAX_CHARS };
  try {
    collectLeaves(value, harvest, 0);
  } catch {
    // As with events: what cannot be read counts as absent.
    return [];
  }
  return harvest.leaves;
}

/** The names of the parts of a value; none if it throws when it is read. */
export function keysOf(value: unknown): readonly string[] {
  try {
    return typeof value === 'object' && value !== null ? Object.keys(value).slice(0, MAX_LEAVES) : [];
  } catch {
    // As with events: what cannot be read counts as absent.
    return [];
  }
}

/** What was gathered of a value, and what may still be looked at. */
type Harvest = { readonly leaves: string[]; partsLeft: number; charsLeft: number };

const MAX_LEAVES = 400;
const MAX_DEPTH = 6;
/** Far more than leaves, for parts that are empty; a value that holds itself would otherwise have a number of parts to the sixth. */
const MAX_PARTS = 10_000;
const MAX_CHARS = 4_000_000;

function collectLeaves(value: unknown, harvest: Harvest, depth: number): void {
  harvest.partsLeft--;
  if (depth > MAX_DEPTH || value === undefined || value === null) return;
  if (typeof value !== 'object') keepLeaf(String(value), harvest);
  else if (Array.isArray(value)) collectItems(value, harvest, depth);
  else if (ArrayBuffer.isView(value)) collectItems(value as unknown as ArrayLike<number>, harvest, depth);
  else collectFields(value as Record<string, unknown>, harvest, depth);
}

function keepLeaf(leaf: string, harvest: Harvest): void {
  harvest.leaves.push(leaf.length <= harvest.charsLeft ? leaf : leaf.slice(0, harvest.charsLeft));
  harvest.charsLeft -= leaf.length;
}

function collectItems(items: ArrayLike<unknown>, harvest: Harvest, depth: number): void {
  for (let at = 0; at < items.length && !isFull(harvest); at++) collectLeaves(items[at], harvest, depth + 1);
}

function collectFields(record: Record<string, unknown>, harvest: Harvest, depth: number): void {
  for (const key of sortedKeys(record, harvest.partsLeft)) {
    if (isFull(harvest)) return;
    collectLeaves(record[key], harvest, depth + 1);
  }
}

function isFull({ leaves, partsLeft, charsLeft }: Harvest): boolean {
  return leaves.length >= MAX_LEAVES || partsLeft <= 0 || charsLeft <= 0;
}

function sortedKeys(record: Record<string, unknown>, maxKeys: number): readonly string[] {
  const keys = Object.keys(record);
  return (keys.length > maxKeys ? keys.slice(0, maxKeys) : keys).sort();
}

function kindOf({ kind, output, name, input, isError }: EventFields): DriftEventKind {
  if (typeof kind === 'string' && KINDS.has(kind)) return kind as DriftEventKind;
  if (output !== undefined) return 'result';
  if (name !== undefined && input !== undefined) return 'call';
  return isError === true ? 'error' : 'message';
}

/** The text in a field, if it holds one. */
export const textField = (value: unknown) => (typeof value === 'string' ? value : undefined);

/** The name in a field, if it holds one, as it is remembered. */
export const nameField = (value: unknown) => (typeof value === 'string' ? boundName(value) : undefined);

/** The number in a field, if it holds one that can be counted with. */
export const numberField = (value: unknown) =>
  typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : undefined;
