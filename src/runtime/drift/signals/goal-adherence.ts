import { type ReadEvent, textOf } from '../step/drift-event.ts';
import { countTerms, saysEnough, termsOf } from '../step/goal-words.ts';
import type { Signal } from '../step/signal.ts';
import type { SignalStates } from './signal-states.ts';

/** Finds where a long text says what the goal is. */
const GOAL_SENTENCE =
  /\b(?:goal|objective|mission|aim|purpose)s?\b[^.!?\n]{0,30}?\b(?:is|are)\b:?\s*(?:to\b)?([^.!?\n]{10,300})/i;
/** Where the goal is stated, if anywhere, even in a very long task. */
const MAX_GOAL_CHARS = 100_000;
const MAX_TERMS = 24;
/** Words of a question that are kept, to know an answer by. */
const MAX_ASKED_TERMS = 48;
/** Weight of the newest step in the moving mean: about the last twenty count. */
const WEIGHT = 0.05;
/** Steps before the mean means something. */
const MIN_STEPS = 20;
/** Agents use, step by step, at least this part of the words of the goal that their system prompt states. */
const MIN_STATED_SHARE = 0.16;
/** Of a goal as people write it less need be said: one of six words in every third step or so. */
const MIN_TOLD_SHARE = 0.05;
const MAX_EXPECTED_TERMS = 6;
const SILENT_NATS = 0.5;
const SPOKEN_NATS = -0.5;

type AdherenceState = SignalStates['goal-adherence'];

/** Speaks when the words of the goal fade from what the agents say and do. */
export function createGoalAdherence(goal: string | undefined, saved?: AdherenceState): Signal {
  let state = saved ?? begin(termsOf(goal ?? '', MAX_TERMS), goal !== undefined);
  return {
    name: 'goal-adherence',
    kind: 'goal',
    observe({ event }) {
      if (goal === undefined) state = hearGoal(state, event);
      state = hearPerson(state, event);
      const said = state.terms.length === 0 ? undefined : textIn(event);
      if (said === undefined) return undefined;
      state = addStep(state, said);
      const { messages, share } = state;
      if (messages < MIN_STEPS) return undefined;
      const minShare = state.isTold === true ? MIN_TOLD_SHARE : MIN_STATED_SHARE;
      const reason = `The last messages and calls use ${Math.round(share * 100)} % of the goal's words (${state.terms.slice(0, 6).join(', ')}).`;
      return { agent: event.agent, nats: share < minShare ? SILENT_NATS : SPOKEN_NATS, steps: [event.index], reason };
    },
    snapshot: () => state,
  };
}

function begin(terms: string[], isTold: boolean): AdherenceState {
  return { terms, share: 0, messages: 0, isTold };
}

/** The text of a `goal` event is the goal, or holds the sentence that says it; a system prompt only states it. */
function hearGoal(state: AdherenceState, { kind, text }: ReadEvent): AdherenceState {
  const isOpen = state.terms.length === 0 || state.isTold === true;
  if (!isOpen || (kind !== 'goal' && kind !== 'system')) return state;
  const whole = text.slice(0, MAX_GOAL_CHARS);
  const sentence = GOAL_SENTENCE.exec(whole)?.[1] ?? (kind === 'goal' ? whole : '');
  const terms = termsOf(sentence, MAX_TERMS);
  return terms.length === 0 ? state : begin(terms, kind === 'goal');
}

function hearPerson(state: AdherenceState, { kind, isAgent, text }: ReadEvent): AdherenceState {
  if (state.isTold !== true || isAgent || kind !== 'message') return state;
  return { ...state, asked: termsOf(text, MAX_ASKED_TERMS) };
}

/** What an agent says or does; undefined for all else, and for what says too little to tell. */
function textIn({ kind, isAgent, name, input, text }: ReadEvent): string | undefined {
  if (!isAgent || (kind !== 'message' && kind !== 'call')) return undefined;
  const said = kind === 'message' ? text : `${name} ${textOf(input)}`;
  return saysEnough(said) ? said : undefined;
}

function addStep(state: AdherenceState, said: string): AdherenceState {
  const messages = state.messages + 1;
  const share = state.share + Math.max(WEIGHT, 1 / messages) * (spokenShare(state, said) - state.share);
  return { ...state, messages, share };
}

/** How much of the goal a step speaks of, 0 to 1. */
function spokenShare({ terms, isTold, asked = [] }: AdherenceState, said: string): number {
  const used = countTerms(terms, said);
  if (isTold !== true) return used / terms.length;
  return used === 0 && countTerms(asked, said) > 0 ? 1 : Math.min(1, used / Math.min(terms.length, MAX_EXPECTED_TERMS));
}
