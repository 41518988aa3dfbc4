import { signal } from '../step/signal.ts';
import { partCount, type TextSketch } from '../step/text-sketch.ts';

/** Enough by itself: no healthy text says one sentence this often. */
const CHANT_NATS = 5;
const MIN_REPEATS = 8;
const MIN_SHARE = 0.6;
const MIN_SENTENCE_CHARS = 20;
const MAX_CHARS = 20_000;
const MIN_USES_PER_WORD = 2.5;

/** Speaks when one message says the same sentence over and over. Code, lists, tables and headings may repeat themselves. */
export const chant = signal({
  kind: 'loop',
  observe({ event, reading }) {
    if (reading?.step.kind !== 'message' || event.kind === 'plan') return undefined;
    if (event.text.length < MIN_REPEATS * MIN_SENTENCE_CHARS || isVaried(reading.step.input)) return undefined;
    const { repeats, sentences } = countRepeats(event.text.slice(0, MAX_CHARS));
    if (repeats < MIN_REPEATS || repeats / sentences < MIN_SHARE) return undefined;
    const reason = `The message says ${repeats} of its ${sentences} sentences again.`;
    return { agent: event.agent, nats: CHANT_NATS, steps: [event.index], reason };
  },
});

/** Most messages use too many different words to be a chant; they need not be read again. */
function isVaried({ words, wordCount }: TextSketch): boolean {
  return partCount(words) * MIN_USES_PER_WORD > wordCount;
}

function countRepeats(text: string): { repeats: number; sentences: number } {
  const seen = new Set<string>();
  let repeats = 0;
  let sentences = 0;
  for (const line of proseLines(text)) {
    for (const sentence of line.split(/[.!?;]+\s*/)) {
      if (sentence.length < MIN_SENTENCE_CHARS) continue;
      sentences++;
      if (seen.has(sentence)) repeats++;
      seen.add(sentence);
    }
  }
  return { repeats, sentences };
}

function* proseLines(text: string): Generator<string> {
  let isCode = false;
  for (const line of text.split('\n')) {
    if (line.trimStart().startsWith('```')) isCode = !isCode;
    else if (!isCode && !/^\s*(?:[-*+#|>]|\d+[.)])/.test(line) && /[a-z]/i.test(line)) yield line;
  }
}
