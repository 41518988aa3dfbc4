import { InvalidInputError } from '../../core/errors.ts';
import type { AgentRegistry } from '../agent/agent-registry.ts';
import type { AgentTotals } from '../agent/agent-state.ts';
import { askLeader } from '../agent/agent-turn.ts';
import type { Effects } from '../agent/effects.ts';
import { findName } from '../agent/find-name.ts';
import type { ModelMessage } from '../model/chat-model.ts';
import type { ChatRecord, ChatSettings } from './chat-state.ts';

/** What selecting needs to know of the group and the world. */
export type SelectionView = {
  readonly chat: ChatRecord;
  /** Names and descriptions, in the order in which they take turns. */
  readonly agents: readonly { readonly name: string; readonly description: string }[];
  readonly registry: AgentRegistry;
  readonly effects: Effects;
  readonly ask: (prompt: string, choices: readonly string[]) => Promise<string>;
  readonly signal?: AbortSignal | undefined;
};

/** Who speaks next, if anyone; and what the record has to remember of it. */
export type Selection = {
  readonly speaker: string | undefined;
  readonly randomState?: number;
  readonly selectorTotals?: AgentTotals;
};

/** How often a model or a person is asked before the next in turn speaks, or nobody. */
const MAX_QUESTIONS = 3;

/** Finds who speaks next among those who may. */
export async function selectSpeaker(view: SelectionView): Promise<Selection> {
  const { settings, lastSpeaker } = view.chat;
  const candidates = findCandidates(settings, namesOf(view), lastSpeaker);
  const [first] = candidates;
  const { speakerSelection } = settings;
  if (first === undefined || (candidates.length === 1 && speakerSelection !== 'manual')) return { speaker: first };
  if (typeof speakerSelection === 'object')
    return { speaker: callSelector(view, candidates, speakerSelection.selector) };
  switch (speakerSelection) {
    case 'round_robin':
      return { speaker: nextInTurn(view, candidates) };
    case 'random': {
      const { value, state: randomState } = nextRandom(view.chat.randomState);
      return { speaker: candidates[Math.floor(value * candidates.length)], randomState };
    }
    case 'manual':
      return { speaker: await askPerson(view, candidates) };
    case 'auto':
      return askModel(view, candidates);
  }
}

/** Who may speak after somebody, or at first. */
export function findCandidates(
  { allowedTransitions, allowRepeatSpeaker }: Pick<ChatSettings, 'allowedTransitions' | 'allowRepeatSpeaker'>,
  agents: readonly string[],
  last: string | null,
): string[] {
  const allowed = last === null ? undefined : allowedTransitions?.[last];
  return agents.filter(
    (name) => (allowed === undefined || allowed.includes(name)) && (allowRepeatSpeaker || name !== last),
  );
}

function namesOf({ agents }: SelectionView): string[] {
  return agents.map(({ name }) => name);
}

/** The one who follows the last speaker in the order, among those who may speak. */
function nextInTurn(view: SelectionView, candidates: readonly string[]): string | undefined {
  const names = namesOf(view);
  const after = names.indexOf(view.chat.lastSpeaker ?? '') + 1;
  return [...names.slice(after), ...names.slice(0, after)].find((name) => candidates.includes(name));
}

function callSelector({ chat, registry }: SelectionView, candidates: readonly string[], name: string) {
  const selector = registry.selector(name);
  if (selector === undefined) {
    throw new InvalidInputError(`Speakers are chosen by the selector "${name}", which is not registered.`, {
      details: { selector: name },
    });
  }
  const speaker = selector({ messages: chat.messages, candidates, lastSpeaker: chat.lastSpeaker ?? undefined });
  if (speaker === undefined || candidates.includes(speaker)) return speaker;
  throw new InvalidInputError(
    `The selector "${name}" chose "${speaker}"; it must choose one of ${candidates.join(', ')}, or nobody.`,
  );
}

async function askPerson({ ask }: SelectionView, candidates: readonly string[]): Promise<string | undefined> {
  const prompt = `Who speaks next: ${candidates.join(', ')}? Press Enter for nobody.`;
  for (let asked = 0; asked < MAX_QUESTIONS; asked++) {
    const answer = (await ask(prompt, candidates)).trim();
    if (answer === '') return undefined;
    const speaker = findName(answer, candidates);
    if (speaker !== undefined) return speaker;
  }
  return undefined;
}

/** A model that names nobody in three answers leaves it to the order. */
async function askModel(view: SelectionView, candidates: readonly string[]): Promise<Selection> {
  const { managerName: name, selectorModelId: modelId, selectorConfig: llmConfig } = view.chat.settings;
  const systemMessage = 'You lead a conversation and decide who speaks next.';
  const messages: ModelMessage[] = [{ role: 'user', content: wordQuestion(view, candidates) }];
  let totals = view.chat.selectorTotals;
  for (let question = 0; question < MAX_QUESTIONS; question++) {
    const said = { systemMessage, messages: [...messages] };
    const turn = await askLeader({ name, modelId, llmConfig, totals }, said, view);
    totals = turn.totals;
    const speaker = findName(turn.content, candidates);
    if (speaker !== undefined) return { speaker, selectorTotals: totals };
    messages.push(...turn.messages, { role: 'user', content: `Answer with one of: ${candidates.join(', ')}.` });
  }
  return { speaker: nextInTurn(view, candidates), selectorTotals: totals };
}

function wordQuestion({ chat, agents }: SelectionView, candidates: readonly string[]): string {
  const roles = agents
    .filter(({ name }) => candidates.includes(name))
    .map(({ name, description }) => `- ${name}: ${description}`);
  return [
    'These can speak:',
    ...roles,
    '',
    'The conversation so far:',
    ...chat.messages.map(({ name, content }) => `${name}: ${content}`),
    '',
    'Who speaks next? Answer with the name alone.',
  ].join('\n');
}

/** One step of a small random generator (mulberry32). The state is a number, so that chance goes on where it was after a restore. */
export function nextRandom(state: number): { readonly value: number; readonly state: number } {
  const next = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(next ^ (next >>> 15), 1 | next);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return { value: ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32, state: next };
}
