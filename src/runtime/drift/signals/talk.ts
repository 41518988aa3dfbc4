import { z } from 'zod';
import { signal, text } from '../step/signal.ts';
import type { StepReading } from '../step/step.ts';
import { partCount, type TextSketch } from '../step/text-sketch.ts';

/** Two of them pass the odds of 100 to 1: nothing happened in between that could excuse saying it again. */
const MONOLOGUE_NATS = 2.4;
const MIN_SIMILARITY = 0.6;

/** Speaks when an agent says the same again although nothing has happened and nobody else has spoken. */
export const monologue = signal({
  kind: 'loop',
  memory: { form: z.object({ speaker: text.optional() }), begin: (): { speaker?: string | undefined } => ({}) },
  observe({ event, reading }, state) {
    const before = state.speaker;
    state.speaker = event.kind === 'message' || event.kind === 'thought' ? event.agent : undefined;
    if (reading?.twin === undefined || reading.step.kind !== 'message' || reading.distance !== 1) return undefined;
    if (before !== event.agent || reading.similarity < MIN_SIMILARITY) return undefined;
    const share = (reading.similarity - MIN_SIMILARITY) / (1 - MIN_SIMILARITY);
    const reason = `${event.agent} says ${Math.round(reading.similarity * 100)} % the same again, and nothing happened in between.`;
    return { agent: event.agent, nats: MONOLOGUE_NATS * share, steps: [reading.twin.index, event.index], reason };
  },
});

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

/** Shorter messages ("ok", "next") say nothing about a stall. */
const MIN_WORDS = 5;
/** Nats for a message that says only what was said before, against one that says only what is new. */
const NATS_PER_SHARE = 3.8;
/** A message needs this much more that is new than that is repeated to count as progress. */
const TOLERANCE = 0.2;
/** Half an alarm: one message is never enough. */
const MAX_NATS = 2.3;
/** More than can be summed up: the count begins anew. */
const RESET_NATS = -1000;
/** Agents that set tasks and are remembered for it. */
const MAX_GIVERS = 16;

/**
 * Speaks when an agent that works by talking (it makes no calls) says again what it said, with little that is new to
 * anyone. An agent that has set a task for others stands for a person ("Please go on."), and is not judged.
 */
export const stall = signal({
  kind: 'stall',
  memory: {
    form: z.object({ givers: z.array(text), hasTakers: z.boolean() }),
    begin: () => ({ givers: [], hasTakers: false }),
  },
  observe({ event, reading }, state) {
    if (event.kind === 'goal' && event.isAgent)
      state.givers = [...new Set([event.agent, ...state.givers])].slice(0, MAX_GIVERS);
    if (reading === undefined) return undefined;
    const { agent, index, kind } = reading.step;
    const isGiver = state.givers.includes(agent);
    state.hasTakers ||= state.givers.length > 0 && !isGiver;
    // An agent that acts is judged by its acts.
    if (kind === 'call') return { agent, nats: RESET_NATS, steps: [index], reason: 'It acts.' };
    if (!saysSomething(reading) || (isGiver && state.hasTakers)) return undefined;
    return judge(reading);
  },
});

function saysSomething({ step }: StepReading): boolean {
  return step.name === 'message' && step.input.wordCount >= MIN_WORDS;
}

function judge({ step, twin, similarity }: StepReading) {
  const { agent, index, inputNovelty } = step;
  const nats = NATS_PER_SHARE * (similarity - inputNovelty + TOLERANCE);
  return {
    agent,
    nats: Math.max(-MAX_NATS, Math.min(MAX_NATS, nats)),
    steps: twin === undefined ? [index] : [twin.index, index],
    reason: `${agent} repeats ${Math.round(similarity * 100)} % of an earlier message, and only ${Math.round(inputNovelty * 100)} % of this one is new.`,
  };
}
