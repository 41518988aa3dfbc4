/** What an event is about; anything else is read as `message`. */
export type DriftEventKind =
  | 'goal'
  | 'system'
  | 'plan'
  | 'thought'
  | 'message'
  | 'call'
  | 'result'
  | 'error'
  | 'cycle'
  | 'finish';

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
};

/** An event with its gaps filled, and its place in the stream. */
export type ReadEvent = {
  readonly index: number;
  readonly kind: DriftEventKind;
  readonly agent: string;
  /** Whether an agent said it, not a person, a tool or the environment. */
  readonly isAgent: boolean;
  readonly name: string;
  readonly callId: string | undefined;
  /** What was said or answered. */
  readonly text: string;
  readonly input: unknown;
  readonly isError: boolean;
  readonly at: number | undefined;
  readonly contextTokens: number | undefined;
  readonly stateDigest: string | undefined;
};

const KINDS: ReadonlySet<string> = new Set<DriftEventKind>([
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
]);

const NOT_AGENTS: ReadonlySet<string> = new Set(['user', 'human', 'system', 'tool', 'env', 'environment']);

/** Names of calls by which agents of many frameworks hand in their answer. */
const FINISHING_NAMES: ReadonlySet<string> = new Set([
  'answer',
  'attempt_completion',
  'complete_task',
  'done',
  'final_answer',
  'finish',
  'submit',
  'submit_answer',
  'terminate',
]);

/** Fills the gaps of an event; never throws, whatever the event is. */
export function readEvent(event: DriftEvent, index: number): ReadEvent {
  const kind = kindOf(event);
  const agent = textField(event.agent) ?? textField(event.role) ?? (kind === 'goal' ? 'user' : 'agent');
  return {
    index,
    kind,
    agent,
    isAgent: isAgent(event, agent),
    name: textField(event.name) ?? '',
    callId: textField(event.callId),
    text: textField(event.text) ?? textOf(kind === 'finish' ? (event.output ?? event.input) : event.output),
    input: event.input,
    isError: event.isError === true || kind === 'error',
    at: numberField(event.at),
    contextTokens: numberField(event.contextTokens),
    stateDigest: textField(event.stateDigest),
  };
}

/** Whether a call hands in the answer. */
export function isFinishing(event: ReadEvent): boolean {
  return event.kind === 'finish' || (event.kind === 'call' && FINISHING_NAMES.has(event.name.toLowerCase()));
}

/** A value as text: its leaves in the order of their keys, so that equal inputs read alike however they were built. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : leavesOf(value).join(' ');
}

/** The texts, numbers and flags in a value, as texts, in the order of their keys. */
export function leavesOf(value: unknown): readonly string[] {
  const leaves: string[] = [];
  collectLeaves(value, leaves, 0);
  return leaves;
}

const MAX_LEAVES = 400;
const MAX_DEPTH = 6;

function collectLeaves(value: unknown, leaves: string[], depth: number): void {
  if (leaves.length >= MAX_LEAVES || depth > MAX_DEPTH || value === undefined || value === null) return;
  if (Array.isArray(value)) {
    for (const item of value) collectLeaves(item, leaves, depth + 1);
  } else if (typeof value === 'object') {
    const record = value as Record<string, unknown>;
    for (const key of Object.keys(record).sort()) collectLeaves(record[key], leaves, depth + 1);
  } else {
    leaves.push(String(value));
  }
}

function kindOf(event: DriftEvent): DriftEventKind {
  if (typeof event.kind === 'string' && KINDS.has(event.kind)) return event.kind as DriftEventKind;
  if (event.output !== undefined) return 'result';
  if (event.name !== undefined && event.input !== undefined) return 'call';
  return event.isError === true ? 'error' : 'message';
}

function isAgent(event: DriftEvent, agent: string): boolean {
  const role = textField(event.role);
  return !NOT_AGENTS.has((role ?? agent).toLowerCase());
}

const textField = (value: unknown) => (typeof value === 'string' ? value : undefined);
const numberField = (value: unknown) => (typeof value === 'number' && Number.isFinite(value) ? value : undefined);
