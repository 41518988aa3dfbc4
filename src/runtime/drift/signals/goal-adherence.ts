import type { ReadEvent } from '../drift-event.ts';
import type { Signal } from '../signal.ts';

/** Finds where a text says what its goal is. */
const GOAL_SENTENCE =
  /\b(?:goal|objective|mission|aim|purpose)s?\b[^.!?\n]{0,30}?\b(?:is|are)\b:?\s*(?:to\b)?([^.!?\n]{10,300})/i;
const STOP_WORDS = new Set(
  'about also caused each first from have into just make should that their them these they this those used using were what when which will with your'.split(
    ' ',
  ),
);
/** Words are compared by their beginnings, so that "emission" counts as "emissions". */
const STEM_CHARS = 6;
const MAX_TERMS = 24;
/** Weight of the newest message in the moving mean: about the last twenty count. */
const WEIGHT = 0.05;
/** Messages before the mean means something. */
const MIN_MESSAGES = 20;
/** Agents that pursue a stated goal use, message by message, at least this part of its words. */
const MIN_SHARE = 0.16;
const SILENT_NATS = 0.5;
const SPOKEN_NATS = -0.5;

type AdherenceState = { readonly terms: readonly string[]; readonly share: number; readonly messages: number };

/** Speaks when the words of a stated goal fade from what the agents say. Needs a goal that is stated as one, or given. */
export function createGoalAdherence(goal: string | undefined, state?: unknown): Signal {
  let { terms, share, messages } = (state as AdherenceState | undefined) ?? {
    terms: goal === undefined ? [] : termsOf(goal.slice(0, MAX_GOAL_CHARS)),
    share: 0,
    messages: 0,
  };
  return {
    name: 'goal-adherence',
    kind: 'goal',
    observe({ event }) {
      if (terms.length === 0 && (event.kind === 'goal' || event.kind === 'system')) terms = statedTerms(event.text);
      if (terms.length === 0 || !event.isAgent || event.kind !== 'message' || event.text === '') return undefined;
      messages++;
      share += Math.max(WEIGHT, 1 / messages) * (spokenShare(event, terms) - share);
      if (messages < MIN_MESSAGES) return undefined;
      return {
        agent: event.agent,
        nats: share < MIN_SHARE ? SILENT_NATS : SPOKEN_NATS,
        steps: [event.index],
        reason: `The last messages use ${Math.round(share * 100)} % of the goal's words (${terms.slice(0, 6).join(', ')}).`,
      };
    },
    snapshot: (): AdherenceState => ({ terms, share, messages }),
  };
}

function statedTerms(text: string): readonly string[] {
  const sentence = GOAL_SENTENCE.exec(text.slice(0, MAX_GOAL_CHARS))?.[1];
  return sentence === undefined ? [] : termsOf(sentence);
}

function termsOf(text: string): readonly string[] {
  const words = wordsOf(text).filter((word) => !STOP_WORDS.has(word));
  return [...new Set(words.map((word) => word.slice(0, STEM_CHARS)))].slice(0, MAX_TERMS);
}

function spokenShare(event: ReadEvent, terms: readonly string[]): number {
  const said = new Set(wordsOf(event.text.slice(0, MAX_MESSAGE_CHARS)).map((word) => word.slice(0, STEM_CHARS)));
  return terms.filter((term) => said.has(term)).length / terms.length;
}

/** Where the goal is stated, if anywhere, even in a very long task. */
const MAX_GOAL_CHARS = 100_000;
const MAX_MESSAGE_CHARS = 4000;
const wordsOf = (text: string) => text.toLowerCase().match(/\p{L}{4,}/gu) ?? [];
