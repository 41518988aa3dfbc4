import { z } from 'zod';
import { keepRecent } from '../../../core/keep-recent.ts';
import { leavesOf, type ReadEvent } from './drift-event.ts';
import { Knowledge, knowledgeState } from './knowledge.ts';
import { count } from './signal.ts';
import {
  type BareStep,
  SHORT_WORDS,
  type Step,
  StepMemory,
  type StepReading,
  stepMemoryState,
  stepSchema,
} from './step.ts';

/** The plain data of a tracker. */
export const stepTrackerState = z.object({
  knowledge: knowledgeState,
  agents: z.array(z.tuple([z.string(), stepMemoryState])),
  open: z.array(stepSchema),
  job: z.string(),
  likeness: z.object({ calls: count, sum: z.number().nonnegative() }).optional(),
});
export type StepTrackerState = z.infer<typeof stepTrackerState>;

/** Agents that are remembered; the one that was silent longest is forgotten. */
const MAX_AGENTS = 16;
/** Calls that wait for their results; more at once are taken as never answered. */
const MAX_OPEN = 16;
/** How alike two calls are counts for how likely so many words of the one all stand in the other: half the words say little. */
const WORDS_AT_ONCE = 3;

/** Joins calls with results, and says of each step how it compares with the agent's earlier ones and what it brings that is new. */
export class StepTracker {
  readonly #knowledge: Knowledge;
  readonly #agents: Map<string, StepMemory>;
  #open: Step[];
  #job: string;
  readonly #likeness: { calls: number; sum: number };

  constructor(state?: StepTrackerState) {
    this.#knowledge = new Knowledge(state?.knowledge);
    this.#agents = new Map(state?.agents.map(([agent, memory]) => [agent, new StepMemory(memory)]));
    this.#open = [...(state?.open ?? [])];
    this.#job = state?.job ?? '';
    this.#likeness = { calls: 0, sum: 0, ...state?.likeness };
  }

  /** How much the calls repeat earlier ones, on average, 0 to 1. */
  get repetitiveness(): number {
    return this.#likeness.sum / Math.max(1, this.#likeness.calls);
  }

  /** The step this event begins or completes, if any. */
  observe(event: ReadEvent): StepReading | undefined {
    this.#job = event.job ?? this.#job;
    switch (event.kind) {
      case 'call':
        return this.#call(event);
      case 'result':
      case 'error':
        return this.#result(event);
      case 'message':
      case 'thought':
      case 'plan':
        return this.#message(event);
      default:
        this.#knowledge.plan(event.text);
        return undefined;
    }
  }

  snapshot(): StepTrackerState {
    return {
      knowledge: this.#knowledge.snapshot(),
      agents: [...this.#agents].map(([agent, memory]) => [agent, memory.snapshot()]),
      open: [...this.#open],
      job: this.#job,
      likeness: { ...this.#likeness },
    };
  }

  #call(event: ReadEvent): StepReading {
    const memory = this.#memoryOf(event.agent);
    if (memory.beginRound()) this.#dropUnanswered(event.agent);
    const leaves = leavesOf(event.input);
    const namesNew = this.#knowledge.learnTargets(`${this.#job} ${event.name}`, leaves);
    const { sketch, novelty, newWords } = this.#knowledge.hear(leaves.join(' '));
    const reading = memory.begin({
      ...bareStep(event, this.#job),
      isWait: isWait(event.name, leaves),
      input: sketch,
      inputNovelty: novelty,
      hasNewTarget: namesNew || (newWords > 0 && sketch.wordCount <= SHORT_WORDS),
      isPlainQuestion:
        !namesNew && newWords * WORDS_PER_NEW_WORD <= sketch.wordCount && isPlain(leaves, sketch.wordCount),
    });
    this.#likeness.calls++;
    this.#likeness.sum += reading.similarity ** WORDS_AT_ONCE;
    this.#open.push(reading.step);
    if (this.#open.length > MAX_OPEN) this.#open.shift();
    return reading;
  }

  #result(event: ReadEvent): StepReading | undefined {
    const { sketch, novelty, newWords } = this.#knowledge.find(event.text);
    const call = this.#takeOpen(event);
    if (call === undefined) return undefined;
    const { hash, wordCount, frame } = sketch;
    const result = { hash, wordCount, frame };
    const outcome = { result, resultNovelty: novelty, isError: event.isError, answeredAt: event.index };
    const reading = this.#memoryOf(call.agent).complete(call, outcome);
    // What an error says is about the call, not about the task.
    return { ...reading, foundWords: event.isError ? 0 : newWords };
  }

  #message(event: ReadEvent): StepReading | undefined {
    const isPlan = event.kind === 'plan';
    const { sketch, novelty } = isPlan ? this.#knowledge.plan(event.text) : this.#knowledge.hear(event.text);
    const isAsked = !event.isAgent && novelty > 0 && sketch.wordCount >= MIN_ASKED_WORDS;
    if (isAsked && event.job === undefined) this.#job = `asked at ${event.index}`;
    if (!event.isAgent || sketch.wordCount === 0) return undefined;
    const step = { ...bareStep(event, this.#job), name: event.kind, input: sketch, inputNovelty: novelty };
    const reading = this.#memoryOf(event.agent).begin({ ...step, kind: 'message' });
    return { ...reading, unplanned: this.#knowledge.unplanned(sketch) };
  }

  #memoryOf(agent: string): StepMemory {
    const memory = this.#agents.get(agent) ?? new StepMemory();
    keepRecent(this.#agents, [agent, memory], MAX_AGENTS);
    return memory;
  }

  /** Calls of an earlier round will not be answered, unless their results can still be told by an id. */
  #dropUnanswered(agent: string): void {
    this.#open = this.#open.filter((call) => call.agent !== agent || call.callId !== undefined);
  }

  #takeOpen(event: ReadEvent): Step | undefined {
    const at = this.#open.findIndex((call) =>
      event.callId === undefined ? event.name === '' || call.name === event.name : call.callId === event.callId,
    );
    return at < 0 ? undefined : this.#open.splice(at, 1)[0];
  }
}

/** Fewer words ("go on", "yes please") ask for nothing else than before. */
const MIN_ASKED_WORDS = 3;
/** A question in which one word of so many is new is the old one; in which more are new, another one. */
const WORDS_PER_NEW_WORD = 8;
const MIN_QUESTION_WORDS = 4;
const MAX_QUESTION_WORDS = 40;
const CODE_SIGNS = /[(){}[\]=;<>\\/_|]|\$[a-z{(]/i;

/** Names of tools that let time pass, and the command of shells that does. */
const WAITING_NAME = /(?:^|[^a-z]|[a-z](?=[SWP]))(?:[Ss]leep|[Ww]ait|[Pp]ause)(?![a-z])/;
const WAITING_COMMAND = /(?:^|[^a-z])sleep\s+\d/i;

function isWait(name: string, leaves: readonly string[]): boolean {
  return WAITING_NAME.test(name) || leaves.some((leaf) => WAITING_COMMAND.test(leaf.slice(0, MAX_COMMAND_CHARS)));
}

const MAX_COMMAND_CHARS = 500;

/** One text of several words, beside nothing but single words, and no signs of code in it. */
function isPlain(leaves: readonly string[], wordCount: number): boolean {
  if (wordCount < MIN_QUESTION_WORDS || wordCount > MAX_QUESTION_WORDS) return false;
  const texts = leaves.filter((leaf) => /\S\s+\S/.test(leaf));
  const [text = ''] = texts;
  return texts.length === 1 && text.trim().split(/\s+/).length >= MIN_QUESTION_WORDS && !CODE_SIGNS.test(text);
}

function bareStep(event: ReadEvent, job: string): Omit<BareStep, 'input' | 'inputNovelty'> {
  return {
    job,
    index: event.index,
    kind: 'call',
    agent: event.agent,
    name: event.name,
    callId: event.callId,
    isWait: false,
    hasNewTarget: false,
    isPlainQuestion: false,
    result: undefined,
    resultNovelty: undefined,
    isError: event.isError,
    answeredAt: undefined,
    atMs: event.at,
  };
}
