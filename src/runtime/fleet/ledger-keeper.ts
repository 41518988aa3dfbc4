import type { AgentTotals } from '../agent/agent-state.ts';
import { askLeader } from '../agent/agent-turn.ts';
import { PERSON, toModelMessages } from '../agent/chat-message.ts';
import type { Effects } from '../agent/effects.ts';
import type { Recall } from '../agent/run-memory.ts';
import type { ModelMessage } from '../model/chat-model.ts';
import type { Fleet } from './fleet.ts';
import {
  askAgain,
  askForAnswer,
  askForFacts,
  askForNewFacts,
  askForNewPlan,
  askForPlan,
  askForProgress,
  askForRevision,
  ORCHESTRATOR_PROMPT,
  REMEMBERED,
  wordRequest,
} from './ledger-prompts.ts';
import { type ProgressLedger, parseProgressLedger } from './progress-ledger.ts';

type KeeperWorld = {
  readonly effects: Effects;
  readonly signal?: AbortSignal | undefined;
  /** Fills in what is remembered of earlier work. */
  readonly recall?: Recall | undefined;
};

/** How often a model is asked for a ledger before the fleet is reset. */
const MAX_QUESTIONS = 3;

/** Asks the orchestrator's model: for facts, plans, progress and the final answer. Changes nothing. */
export class LedgerKeeper {
  readonly #fleet: Fleet;
  readonly #world: KeeperWorld;
  #totals: AgentTotals;
  #prompt: Promise<string> | undefined;

  constructor(fleet: Fleet, world: KeeperWorld) {
    this.#fleet = fleet;
    this.#world = world;
    this.#totals = fleet.record.totals;
  }

  /** What the orchestrator has used, with this. It counts when the move is complete: what is asked again is not counted twice. */
  get totals(): AgentTotals {
    return this.#totals;
  }

  /** What is known: gathered at the beginning, brought up to date when it is re-planned. */
  async gatherFacts(): Promise<string> {
    const { taskLedger } = this.#fleet.record;
    const request = wordRequest(this.#fleet.record);
    const question = taskLedger === null ? askForFacts(request) : askForNewFacts(request, taskLedger.facts);
    return (await this.#ask([...this.#conversation, user(question)])).text;
  }

  async makePlan(): Promise<string> {
    const { taskLedger, planFeedback } = this.#fleet.record;
    const { facts = '', plan = '' } = taskLedger ?? {};
    const request = wordRequest(this.#fleet.record);
    const known: ModelMessage[] = [user(askForFacts(request)), { role: 'assistant', content: facts }];
    const question = this.#wordPlanQuestion(plan, planFeedback);
    return (await this.#ask([...known, ...this.#conversation, user(question)])).text;
  }

  #wordPlanQuestion(plan: string, feedback: string | null): string {
    if (plan === '') return askForPlan(this.#fleet.members);
    return feedback === null ? askForNewPlan(this.#fleet.members, plan) : askForRevision(plan, feedback);
  }

  /** The ledger; undefined if three answers made none. Each time the model is told what was wrong. */
  async assessProgress(): Promise<ProgressLedger | undefined> {
    const names = this.#fleet.members.map(({ name }) => name);
    const asked = [...this.#conversation, user(askForProgress(wordRequest(this.#fleet.record), this.#fleet.members))];
    for (let question = 0; question < MAX_QUESTIONS; question++) {
      const { text, messages } = await this.#ask(asked);
      const { ledger, problems = [] } = parseProgressLedger(text, names);
      if (ledger !== undefined) return ledger;
      asked.push(...messages, user(askAgain(problems)));
    }
    return undefined;
  }

  async composeAnswer(isSatisfied: boolean): Promise<string> {
    const question = askForAnswer(wordRequest(this.#fleet.record), isSatisfied);
    return (await this.#ask([...this.#conversation, user(question)])).text;
  }

  get #conversation(): readonly ModelMessage[] {
    const { messages, settings } = this.#fleet.record;
    return toModelMessages(messages, settings.orchestratorName);
  }

  async #ask(messages: readonly ModelMessage[]): Promise<{ text: string; messages: readonly ModelMessage[] }> {
    const { orchestratorName: name, llmConfig, modelId } = this.#fleet.record.settings;
    this.#prompt ??= this.#wordPrompt(name);
    const said = { systemMessage: await this.#prompt, messages: [...messages] };
    const { registry } = this.#fleet;
    const turn = await askLeader({ name, llmConfig, modelId, totals: this.#totals }, said, {
      ...this.#world,
      registry,
    });
    this.#totals = turn.totals;
    return { text: turn.content, messages: turn.messages };
  }

  /** Who plans must know what the user likes, or nobody does. */
  async #wordPrompt(name: string): Promise<string> {
    const { effects, signal, recall } = this.#world;
    if (recall === undefined) return ORCHESTRATOR_PROMPT;
    const { record } = this.#fleet;
    const heard = [{ name: PERSON, content: wordRequest(record) }, ...record.messages];
    const { text } = await recall(`${ORCHESTRATOR_PROMPT}${REMEMBERED}`, { name, heard, effects, signal });
    return text;
  }
}

function user(content: string): ModelMessage {
  return { role: 'user', content };
}
