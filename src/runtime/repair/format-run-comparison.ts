import { formatCount } from '../../core/format-count.ts';
import type { ComparedMessage, ComparedRun, ComparedStep, RunComparison } from './compare-runs.ts';

const SIGNS = { same: ' ', changed: '~', only_a: '-', only_b: '+' } as const;

/** Messages are shown by their first words. */
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
      : `message ${message.index} of ${message.speaker} at ${message.checkpointId ?? 'a deleted checkpoint'}`;
  return `a: ${side(firstDivergence.a)}; b: ${side(firstDivergence.b)}`;
}

function formatStep({ kind, a, b }: ComparedStep): string[] {
  if (kind !== 'changed') return [formatLine(SIGNS[kind], a ?? b)];
  return [formatLine(`${SIGNS.changed}-`, a), formatLine(`${SIGNS.changed}+`, b)];
}

function formatLine(sign: string, message: ComparedMessage | undefined): string {
  const { index = 0, speaker = '', content = '' } = message ?? {};
  const words = content.replace(/\s+/g, ' ');
  return `${sign.padEnd(2)} ${`${index}`.padStart(3)} ${speaker}: ${words.length > MAX_CHARS ? `${words.slice(0, MAX_CHARS)}…` : words}`;
}

function signed(value: number): string {
  return `${value < 0 ? '' : '+'}${Number(value.toPrecision(6))}`;
}
