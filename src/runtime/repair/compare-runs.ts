import { align } from '../../core/diff/align.ts';
import { NotFoundError } from '../../core/errors.ts';
import { formatCount } from '../../core/format-count.ts';
import { checkOptions, type OptionChecks } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { type AgentTotals, subtractTotals } from '../agent/agent-state.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { ChatEnd } from '../chat/chat-end.ts';
import { totalsOf } from '../chat/chat-state.ts';
import type { ModelMessage } from '../model/chat-model.ts';
import { PARTS } from '../run/run-options.ts';
import { ChatPath } from './chat-path.ts';
import type { RepairParts } from './intervene.ts';

/** A run of a conversation: the checkpoint it is looked at, or a branch at its head. */
export type RunRef = string | { readonly sessionId: string; readonly branch: string };

const RUN: OptionChecks<Exclude<RunRef, string>> = { sessionId: { required: name }, branch: { required: name } };

/** One of two runs that are compared. */
export type ComparedRun = {
  readonly sessionId: string;
  readonly branch: string;
  readonly checkpointId: string;
  readonly messages: number;
  /** Null if it had not ended at that checkpoint. */
  readonly end: ChatEnd | null;
  readonly totals: AgentTotals;
};

/** One message of a run. */
export type ComparedMessage = {
  readonly index: number;
  readonly speaker: string;
  readonly content: string;
  /** The checkpoint at which it was appended; undefined if that was deleted or never was on the path. */
  readonly checkpointId: string | undefined;
};

/** One line of the comparison. */
export type ComparedStep = {
  readonly kind: 'same' | 'changed' | 'only_a' | 'only_b';
  readonly a?: ComparedMessage;
  readonly b?: ComparedMessage;
};

/** Two runs beside each other; differences are what the second has more than the first. */
export type RunComparison = {
  readonly a: ComparedRun;
  readonly b: ComparedRun;
  readonly isIdentical: boolean;
  /** The newest checkpoint that both descend from. */
  readonly commonAncestorId: string | undefined;
  readonly steps: readonly ComparedStep[];
  readonly counts: Readonly<Record<ComparedStep['kind'], number>>;
  /** The first step at which they differ; a side is absent where that run was over. */
  readonly firstDivergence: ComparedStep | undefined;
  readonly difference: AgentTotals;
};

/** Compares two runs message by message: what is the same, what is not, where they part, and what each cost. */
export async function compareRuns(parts: RepairParts, a: RunRef, b: RunRef): Promise<RunComparison> {
  checkOptions(parts, PARTS, 'compareRuns()');
  const [pathA, pathB] = await Promise.all([openRun(parts.manager, a), openRun(parts.manager, b)]);
  const steps = alignMessages(pathA.state.chat.messages, pathB.state.chat.messages).map(
    ({ kind, a: atA, b: atB }): ComparedStep => ({
      kind,
      ...(atA !== undefined && { a: describeMessage(pathA, atA) }),
      ...(atB !== undefined && { b: describeMessage(pathB, atB) }),
    }),
  );
  const [runA, runB] = [describeRun(pathA), describeRun(pathB)];
  const firstDivergence = findFirst(steps);
  const count = (kind: ComparedStep['kind']): number => steps.filter((step) => step.kind === kind).length;
  const idsB = new Set(pathB.ids);
  return {
    a: runA,
    b: runB,
    isIdentical: firstDivergence === undefined && runA.end?.reason === runB.end?.reason,
    commonAncestorId: pathA.ids.find((id) => idsB.has(id)),
    steps,
    counts: { same: count('same'), changed: count('changed'), only_a: count('only_a'), only_b: count('only_b') },
    firstDivergence,
    difference: subtractTotals(runB.totals, runA.totals),
  };
}

async function openRun(manager: CheckpointManager, ref: RunRef): Promise<ChatPath> {
  if (typeof ref === 'string') return ChatPath.open(manager, ref);
  checkOptions(ref, RUN, 'a run to compare');
  const branches = await manager.branches(ref.sessionId);
  const found = branches.find(({ branch }) => branch === ref.branch);
  if (found !== undefined) return ChatPath.open(manager, found.headId);
  const names = branches.map(({ branch }) => branch).join(', ') || 'none';
  throw new NotFoundError(`Session "${ref.sessionId}" has no branch "${ref.branch}". It has: ${names}.`, {
    details: ref,
  });
}

function describeRun({ head, state }: ChatPath): ComparedRun {
  const { sessionId, branch, id } = head;
  const { messages, end } = state.chat;
  return { sessionId, branch, checkpointId: id, messages: messages.length, end, totals: totalsOf(state) };
}

function describeMessage(path: ChatPath, index: number): ComparedMessage {
  const { name = '', content = '' } = path.state.chat.messages[index] ?? {};
  return { index, speaker: name, content, checkpointId: path.findAppended(index + 1)?.id };
}

/** Where one run left out or added a message, the line shows what the other has at that moment, if anything. */
function findFirst(steps: readonly ComparedStep[]): ComparedStep | undefined {
  const at = steps.findIndex(({ kind }) => kind !== 'same');
  const first = steps[at];
  if (first === undefined || first.kind === 'changed') return first;
  const rest = steps.slice(at);
  const a = rest.find((step) => step.a !== undefined)?.a;
  const b = rest.find((step) => step.b !== undefined)?.b;
  return { kind: first.kind, ...(a !== undefined && { a }), ...(b !== undefined && { b }) };
}

/** One line of two conversations beside each other, by places in each. */
export type AlignedStep = { readonly kind: ComparedStep['kind']; readonly a?: number; readonly b?: number };

/** What messages are matched by, and what that makes of them: equal ones first, and between these those of the same speaker. */
const LEVELS = [
  { kind: 'same', keyOf },
  { kind: 'changed', keyOf: ({ name: speaker }: ChatMessage) => speaker },
] as const;

/** Equal messages first; between them, messages of the same speaker as changed; what is left is in one of them only. */
export function alignMessages(a: readonly ChatMessage[], b: readonly ChatMessage[]): AlignedStep[] {
  return alignSpans({ messages: a, from: 0 }, { messages: b, from: 0 }, LEVELS);
}

type Span = { readonly messages: readonly ChatMessage[]; readonly from: number };

function alignSpans(a: Span, b: Span, [level, ...rest]: readonly (typeof LEVELS)[number][]): AlignedStep[] {
  if (level === undefined)
    return [
      ...a.messages.map((_, at): AlignedStep => ({ kind: 'only_a', a: a.from + at })),
      ...b.messages.map((_, at): AlignedStep => ({ kind: 'only_b', b: b.from + at })),
    ];
  const steps: AlignedStep[] = [];
  const matches = align(a.messages.map(level.keyOf), b.messages.map(level.keyOf));
  const end = { before: a.messages.length, after: b.messages.length, length: 0 };
  let [atA, atB] = [0, 0];
  for (const { before, after, length } of [...matches, end]) {
    steps.push(...alignSpans(spanOf(a, atA, before), spanOf(b, atB, after), rest));
    for (let at = 0; at < length; at++)
      steps.push({ kind: level.kind, a: a.from + before + at, b: b.from + after + at });
    [atA, atB] = [before + length, after + length];
  }
  return steps;
}

function spanOf({ messages, from }: Span, begin: number, end: number): Span {
  return { messages: messages.slice(begin, end), from: from + begin };
}

/** Where two conversations first differ; undefined if they do not. One that is over differs from one that goes on. */
export function findDivergence(a: readonly ChatMessage[], b: readonly ChatMessage[]): number | undefined {
  const keys = [a, b].map((messages) => messages.map(keyOf));
  const at = Array.from({ length: Math.max(a.length, b.length) }).findIndex((_, i) => keys[0]?.[i] !== keys[1]?.[i]);
  return at < 0 ? undefined : at;
}

/** Who said what and did what. Ids of calls, provider data and notes about edits are not part of it: they differ between equal runs. */
export function keyOf({ name, content, turn = [], code = [] }: ChatMessage): string {
  const ran = code.map(({ language, exitCode, output }) => [language, exitCode, output]);
  return JSON.stringify([name, content, turn.flatMap(actionsOf), ran]);
}

function actionsOf({ content }: ModelMessage): unknown[] {
  if (typeof content === 'string') return [];
  return content.flatMap((part) => {
    if (part.type === 'tool-call') return [[part.toolName, part.input]];
    return part.type === 'tool-result' ? [[part.toolName, part.output]] : [];
  });
}

const SIGNS = { same: ' ', changed: '~', only_a: '-', only_b: '+' } as const;

const MAX_CHARS = 100;

/** A comparison as text, one line for each message: ` ` same, `~` changed, `-` only in the first, `+` only in the second. */
export function formatRunComparison(comparison: RunComparison): string {
  const { a, b, counts, steps, difference, commonAncestorId } = comparison;
  const tokens = difference.inputTokens + difference.outputTokens;
  return [
    `a: ${formatRun(a)}`,
    `b: ${formatRun(b)}`,
    `common ancestor: ${commonAncestorId ?? 'none'}`,
    `messages: ${counts.same} same, ${counts.changed} changed, ${counts.only_a} only in a, ${counts.only_b} only in b`,
    `first divergence: ${formatDivergence(comparison)}`,
    `b used ${signed(tokens)} tokens, ${signed(difference.modelCalls)} model calls, ${signed(difference.toolCalls)} tool calls, ${signed(difference.costUsd)} USD`,
    '',
    ...steps.flatMap(formatStep),
    '',
  ].join('\n');
}

function formatRun({ sessionId, branch, checkpointId, messages, end }: ComparedRun): string {
  const ending = end === null ? 'not ended' : `ended: ${end.reason}`;
  return `${sessionId}, branch ${branch} at ${checkpointId}, ${formatCount(messages, 'message')}, ${ending}`;
}

function formatDivergence({ firstDivergence, a, b }: RunComparison): string {
  if (firstDivergence === undefined) return a.end?.reason === b.end?.reason ? 'none' : 'none but how they ended';
  const side = (message: ComparedMessage | undefined): string =>
    message === undefined
      ? 'is over'
      : `message ${message.index + 1} of ${message.speaker} at ${message.checkpointId ?? 'a deleted checkpoint'}`;
  return `a: ${side(firstDivergence.a)}; b: ${side(firstDivergence.b)}`;
}

function formatStep({ kind, a, b }: ComparedStep): string[] {
  if (kind !== 'changed') return [formatLine(SIGNS[kind], a ?? b)];
  return [formatLine(`${SIGNS.changed}-`, a), formatLine(`${SIGNS.changed}+`, b)];
}

function formatLine(sign: string, message: ComparedMessage | undefined): string {
  const { index = 0, speaker = '', content = '' } = message ?? {};
  const words = content.replace(/\s+/g, ' ');
  return `${sign.padEnd(2)} ${`${index + 1}`.padStart(3)} ${speaker}: ${words.length > MAX_CHARS ? `${words.slice(0, MAX_CHARS)}…` : words}`;
}

function signed(value: number): string {
  return `${value < 0 ? '' : '+'}${Number(value.toPrecision(6))}`;
}
