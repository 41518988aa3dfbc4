import { align } from '../../core/diff/align.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { ModelMessage } from '../model/chat-model.ts';

/** One line of two conversations beside each other, by places in each. */
export type AlignedStep =
  | { readonly kind: 'same' | 'changed'; readonly a: number; readonly b: number }
  | { readonly kind: 'only_a'; readonly a: number; readonly b?: undefined }
  | { readonly kind: 'only_b'; readonly b: number; readonly a?: undefined };

type Span = { readonly from: number; readonly to: number };

/**
 * Lays two conversations beside each other: equal messages first, then, between them, messages of the same speaker as changed; what is left
 * is in one of them only.
 */
export function alignMessages(a: readonly ChatMessage[], b: readonly ChatMessage[]): AlignedStep[] {
  const steps: AlignedStep[] = [];
  const matches = align(a.map(keyOf), b.map(keyOf));
  let [atA, atB] = [0, 0];
  for (const { before, after, length } of [...matches, { before: a.length, after: b.length, length: 0 }]) {
    steps.push(...alignSpeakers({ a, b }, { from: atA, to: before }, { from: atB, to: after }));
    for (let i = 0; i < length; i++) steps.push({ kind: 'same', a: before + i, b: after + i });
    [atA, atB] = [before + length, after + length];
  }
  return steps;
}

function alignSpeakers(
  { a, b }: { readonly a: readonly ChatMessage[]; readonly b: readonly ChatMessage[] },
  spanA: Span,
  spanB: Span,
): AlignedStep[] {
  const namesOf = (messages: readonly ChatMessage[], { from, to }: Span) =>
    messages.slice(from, to).map(({ name }) => name);
  const matches = align(namesOf(a, spanA), namesOf(b, spanB));
  const steps: AlignedStep[] = [];
  let [atA, atB] = [spanA.from, spanB.from];
  const end = { before: spanA.to - spanA.from, after: spanB.to - spanB.from, length: 0 };
  for (const { before, after, length } of [...matches, end]) {
    for (; atA < spanA.from + before; atA++) steps.push({ kind: 'only_a', a: atA });
    for (; atB < spanB.from + after; atB++) steps.push({ kind: 'only_b', b: atB });
    for (let i = 0; i < length; i++) steps.push({ kind: 'changed', a: atA++, b: atB++ });
  }
  return steps;
}

/** Where two conversations first differ, from a place on; undefined if they do not. One that is over differs from one that goes on. */
export function findDivergence(a: readonly ChatMessage[], b: readonly ChatMessage[], from = 0): number | undefined {
  const end = Math.max(a.length, b.length);
  for (let at = from; at < end; at++) {
    const [inA, inB] = [a[at], b[at]];
    if (inA === undefined || inB === undefined || keyOf(inA) !== keyOf(inB)) return at;
  }
  return undefined;
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
