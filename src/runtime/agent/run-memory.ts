import { InvalidInputError } from '../../core/errors.ts';
import { anything, checkOptions, positive } from '../../core/options.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { SessionPlace } from '../../memory/log/lineages.ts';
import { parseScope } from '../../memory/log/memory-input.ts';
import type { Memory } from '../../memory/memory.ts';
import type { MemoryScope } from '../../memory/storage/memory-record.ts';
import type { AgentState } from './agent-state.ts';
import { type ChatMessage, PERSON } from './chat-message.ts';
import type { Effects } from './effects.ts';

/** Long-term memory for a run, and whose it is. */
export type RunMemory = {
  readonly memory: Memory;
  /** At least one of userId, agentId and runId. */
  readonly scope: MemoryScope;
  /** What `{memory}` may take of a prompt; default 600. */
  readonly budgetTokens?: number;
};

/** How a run is given long-term memory: with whose it is, or alone, and then it is that of the run's `userId`. */
export type MemoryOption = Memory | RunMemory;

/** A prompt with its `{memory}` blocks filled, and which memories are in them. */
export type FilledPrompt = { readonly text: string; readonly ids: readonly string[] };

/** Who is about to speak, and what it has heard: that is asked with, and not repeated. */
export type RecallContext = {
  readonly name: string;
  readonly heard: readonly ChatMessage[];
  readonly effects: Effects;
  readonly signal?: AbortSignal | undefined;
};

/** Fills the `{memory}` blocks of a prompt. */
export type Recall = (template: string, context: RecallContext) => Promise<FilledPrompt>;

/** Accepts the `memory` option of a run or throws, so that a wrong one is refused before a model is asked. */
export function parseRunMemory(option: MemoryOption | undefined, userId: string | undefined): RunMemory | undefined {
  if (option === undefined) return undefined;
  if (isMemory(option)) {
    if (userId !== undefined) return { memory: option, scope: parseScope({ userId }) };
    throw new InvalidInputError(
      'Whose memory is it? Give the run a userId beside the memory, or memory: { memory, scope: { userId } }.',
    );
  }
  const { memory, scope }: Partial<RunMemory> = option ?? {};
  if (!isMemory(memory) || typeof scope !== 'object' || scope === null) {
    throw new InvalidInputError(
      `The option "memory" must be a Memory, or { memory, scope: { userId } }; found ${describe(option)}.`,
    );
  }
  checkOptions(option, { memory: anything, scope: anything, budgetTokens: positive }, 'memory');
  return { ...option, scope: parseScope(scope) };
}

function isMemory(value: unknown): value is Memory {
  const { add, render } = (value ?? {}) as Partial<Memory>;
  return typeof add === 'function' && typeof render === 'function';
}

function describe(value: unknown): string {
  if (typeof value !== 'object' || value === null) return String(value);
  return `an object with ${Object.keys(value).join(', ') || 'nothing'}`;
}

/**
 * Recalls from where a session stands, so that what an abandoned branch taught stays unknown. It is asked for anew in every turn; within
 * one, a resumed run uses what it was told before.
 */
export function createRecall(
  given: RunMemory | undefined,
  session: SessionPlace,
  about: () => Omit<Situation, 'heard'>,
): Recall | undefined {
  if (given === undefined) return undefined;
  const { memory, scope, budgetTokens } = given;
  return async (template, { name, heard, effects, signal }) => {
    if (!template.includes('{memory')) return { text: template, ids: [] };
    const query = wordQuery({ ...about(), heard });
    return effects.run({ kind: 'memory', name, input: { template, query }, signal }, async () => {
      const said = heard.slice(-SAID_MESSAGES).map(({ content }) => content);
      const limits = budgetTokens === undefined ? {} : { budgetTokens };
      const { text, ids } = await memory.render(template, { scope, query, said, session, ...limits });
      return { text, ids };
    });
  };
}

/** What stands further back than this may be repeated: looking through a long conversation in every turn would cost more. */
const SAID_MESSAGES = 50;

/** What was said and saved, by whom. */
export type Lesson = { readonly message: ChatMessage; readonly speaker: AgentState | undefined };

/** Learns what people say, and what agents with the `store` flag say; once for each checkpoint, however often it is told. */
export async function learn(
  { memory, scope }: RunMemory,
  lessons: readonly Lesson[],
  checkpoint: Checkpoint,
): Promise<void> {
  const turns = lessons.flatMap(turnsOf);
  if (turns.length > 0) await memory.add(turns, { ...scope, checkpoint: checkpoint.id });
}

function turnsOf({ message: { name, content }, speaker }: Lesson) {
  const isPerson = speaker === undefined || speaker.humanInputMode === 'ALWAYS';
  if (!isPerson && !speaker.runtime.store) return [];
  // The person at the other end is the user, whom memory knows by another name.
  const named = name === PERSON ? {} : { name };
  return [{ role: isPerson ? 'user' : 'assistant', ...named, content }];
}

/** The last lessons, as far as no checkpoint was saved for them alone; with the one before, if the head was saved for it. */
export function unsavedLessons(lessons: readonly Lesson[], isHeadForLast: boolean): readonly Lesson[] {
  const before = isHeadForLast ? lessons.slice(0, -1) : lessons;
  return lessons.slice(before.findLastIndex(({ speaker }) => speaker?.runtime.checkpoint !== false) + 1);
}

/** What somebody who is about to speak has before them. */
export type Situation = {
  readonly task?: string | undefined;
  readonly plan?: string | undefined;
  readonly heard: readonly ChatMessage[];
};

/** Beginnings are enough to say what it is about, and no part may push out the others. */
const PART_CHARS = 400;
const RECENT_MESSAGES = 4;

/**
 * Words the question to long-term memory: the last message alone ("Good.", "Do part 1.") says little of what it is about. What matters
 * most comes first: the last message, the task, the messages before it, the plan.
 */
export function wordQuery({ task, plan, heard }: Situation): string {
  const [last, ...earlier] = heard
    .slice(-RECENT_MESSAGES)
    .map(({ content }) => content)
    .toReversed();
  const parts = [last, task, ...earlier, plan].map((part) => part?.trim().slice(0, PART_CHARS) ?? '');
  return [...new Set(parts)].filter((part) => part !== '').join('\n');
}
