import { InvalidInputError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import { anything, checkOptions, checkValue, flag, type OptionChecks, record, string } from '../../core/options.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import { standardAgents } from '../agent/agent-options.ts';
import { AgentRegistry, registry } from '../agent/agent-registry.ts';
import { type AgentTotals, addTotals, NO_TOTALS } from '../agent/agent-state.ts';
import { type ChatMessage, countOccurrence, editMessage, PERSON, replaceMessage } from '../agent/chat-message.ts';
import { loadAgents } from '../agent/load-agents.ts';
import { type HeardMessage, toMessage } from '../agent/reply.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { ChatModel } from '../model/chat-model.ts';
import type { LanguageModel } from '../model/language-model.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import { type GivenEndRules, stripSignals } from './chat-end.ts';
import { checkRounds, checkSettings, createSettings, SETTINGS } from './chat-settings.ts';
import {
  CHAT_KIND,
  type ChatRecord,
  type ChatSettings,
  type ChatState,
  type PendingReply,
  parseChatState,
} from './chat-state.ts';

/** Who talks, and how. */
export type GroupChatOptions = {
  readonly agents: readonly StandardAgent[];
  readonly registry?: AgentRegistry;
  readonly managerName?: string;
  readonly speakerSelection?: ChatSettings['speakerSelection'];
  readonly allowedTransitions?: Readonly<Record<string, readonly string[]>>;
  readonly allowRepeatSpeaker?: boolean;
  readonly sendIntroductions?: boolean;
  readonly seed?: number;
  readonly maxRounds?: number;
  /** What ends the conversation; `signals` are SOLUTION_FOUND and TERMINATE unless given. */
  readonly end?: GivenEndRules;
  /** What selects speakers with `auto`: a configuration, or a model given as an object. */
  readonly selector?: LlmConfig | ChatModel | LanguageModel;
};

const OPTIONS: OptionChecks<GroupChatOptions> = {
  agents: { required: standardAgents },
  registry,
  ...SETTINGS,
  // A model or a configuration is checked where it is read.
  selector: record,
};

type ReopenOptions = { readonly rounds: number; readonly stripSignal?: boolean | undefined };

const REOPEN: OptionChecks<ReopenOptions> = { rounds: anything, stripSignal: flag };

/** A conversation of several agents: who is in it, what was said, and whose turn it is. It does nothing by itself. */
export class GroupChat {
  readonly registry: AgentRegistry;
  #agents: ReadonlyMap<string, StandardAgent>;
  #record: ChatRecord;

  constructor(options: GroupChatOptions) {
    checkOptions(options, OPTIONS, 'new GroupChat()');
    this.registry = options.registry ?? new AgentRegistry();
    this.#agents = new Map(options.agents.map((agent) => [agent.name, agent]));
    if (this.#agents.size === 0) throw new InvalidInputError('A group chat needs at least one agent.');
    if (this.#agents.size < options.agents.length) throw new InvalidInputError('Two agents have the same name.');
    checkModels(options.agents);
    for (const agent of options.agents) this.registry.addAgent(agent);
    const settings = createSettings(options, this.registry);
    checkSettings(settings, [...this.#agents.keys()], this.registry);
    this.#record = createRecord(settings);
  }

  get record(): ChatRecord {
    return this.#record;
  }

  get agents(): readonly StandardAgent[] {
    return [...this.#agents.values()];
  }

  get messages(): readonly ChatMessage[] {
    return this.#record.messages;
  }

  agent(name: string): StandardAgent | undefined {
    return this.#agents.get(name);
  }

  /** What everybody has used. */
  get totals(): AgentTotals {
    return this.agents.map((agent) => agent.saveState().totals).reduce(addTotals, this.#record.selectorTotals);
  }

  /** Records a change of the conversation. */
  change(change: Partial<ChatRecord>): void {
    const record = { ...this.#record, ...change };
    freezeState(record);
    this.#record = record;
  }

  /** Says something to the group, by the person unless it has a name: it is in the transcript, and all but its speaker hear it. */
  append(said: string | HeardMessage | ChatMessage): void {
    const message = toMessage(said, PERSON);
    this.change({ messages: [...this.#record.messages, message] });
    for (const agent of this.#agents.values()) if (agent.name !== message.name) this.tell(agent, message);
  }

  /** Says something to one agent alone. */
  tell(agent: StandardAgent, message: string | HeardMessage | ChatMessage): void {
    agent.receive(message, this.#record.settings.managerName);
  }

  /** Changes a message in the transcript and in every agent's copy of it; answers the message as it is now. */
  edit(index: number, content: string, edit: { readonly reason?: string; readonly author?: string } = {}): ChatMessage {
    checkValue(content, string, 'The content of a message');
    const { messages, settings } = this.#record;
    const message = messages[index];
    if (message === undefined) {
      throw new InvalidInputError(`There is no message ${index}: the conversation has ${messages.length}.`, {
        details: { index, messages: messages.length },
      });
    }
    const original = { message, occurrence: countOccurrence(messages, index) };
    const replacement = editMessage(message, content, edit);
    this.change({ messages: messages.with(index, replacement) });
    for (const agent of this.#agents.values()) {
      const history = replaceMessage(agent.history(settings.managerName), original, replacement);
      agent.rewriteHistory(settings.managerName, history);
    }
    return replacement;
  }

  /** Lets a conversation go on for a number of rounds, also if it had ended. What its own words ended stays ended unless they are stripped. */
  reopen(options: ReopenOptions): void {
    checkOptions(options, REOPEN, 'reopen()');
    const { rounds, stripSignal = false } = options;
    checkRounds(rounds);
    const { round, end } = this.#record;
    this.change({ roundLimit: round + rounds, roundsFrom: round });
    if (stripSignal) this.#stripSignal();
    const isFinal = !stripSignal && (end?.reason === 'signal' || end?.reason === 'predicate');
    if (!isFinal) this.#goOn();
  }

  /** Lets a person say something that the conversation goes on from for a number of rounds, also if it had ended. */
  prompt(content: string, rounds: number): void {
    checkValue(content, string, 'The message of prompt()');
    if (content.trim() === '') throw new InvalidInputError('The prompt is empty. Say what the group is to do.');
    checkRounds(rounds);
    const { pendingReply } = this.#record;
    if (pendingReply !== null) this.appendReply(pendingReply);
    const { round, stage, messages } = this.#record;
    const message = { name: PERSON, content };
    const opening = stage === 'open' ? 0 : 1;
    this.change({
      roundLimit: round + rounds,
      roundsFrom: round,
      pendingReply: { speaker: PERSON, message, isPrompt: true },
      endOverruledAt: messages.length + opening + 1, // a request may quote the words that end conversations
      pendingInput: null,
      nextSpeaker: null,
    });
    this.#goOn();
  }

  /** Puts a reply that was generated into the transcript. */
  appendReply({ message, isPrompt = false }: PendingReply): void {
    const round = this.#record.round + (isPrompt ? 0 : 1);
    this.change({ pendingReply: null, nextSpeaker: null, lastSpeaker: message.name, round });
    this.append(message);
  }

  #goOn(): void {
    this.change({ end: null });
    if (this.#record.stage !== 'open') return;
    for (const agent of this.#agents.values()) agent.setStatus('running');
  }

  /** Takes the words that would end the conversation out of its last message, said or pending; what else would end it is overruled. */
  #stripSignal(): void {
    const { pendingReply } = this.#record;
    if (pendingReply === null) this.#stripLast();
    else this.#stripPending(pendingReply);
  }

  #stripLast(): void {
    const { messages, settings } = this.#record;
    const last = messages.at(-1);
    if (last === undefined) return;
    const content = stripSignals(last.content, settings.end);
    if (content !== last.content) this.edit(messages.length - 1, content, { reason: STRIPPED });
    this.change({ endOverruledAt: messages.length });
  }

  #stripPending(reply: PendingReply): void {
    const { messages, settings } = this.#record;
    const { speaker, message } = reply;
    const content = stripSignals(message.content, settings.end);
    this.change({ endOverruledAt: messages.length + 1 });
    if (content === message.content) return;
    const stripped = editMessage(message, content, { reason: STRIPPED });
    this.change({ pendingReply: { ...reply, message: stripped } });
    const agent = this.#agents.get(speaker); // nobody else has heard it
    agent?.rewriteHistory(settings.managerName, agent.history(settings.managerName).with(-1, stripped));
  }

  /** Puts a state back into the conversation and its agents; answers what could not be put back. */
  loadState(state: unknown): readonly RestoreProblem[] {
    const parsed = parseChatState(state);
    const { nextSpeaker } = parsed.chat;
    const isThere = nextSpeaker !== null && this.#agents.has(nextSpeaker);
    this.change({ ...parsed.chat, nextSpeaker: isThere ? nextSpeaker : null });
    this.#agents = inOrder(this.#agents, parsed.order);
    return loadAgents(this.#agents, parsed, this.registry);
  }

  /** Everything a checkpoint holds of the conversation and its agents. */
  saveState(): ChatState {
    return {
      kind: CHAT_KIND,
      formatVersion: 1,
      chat: this.#record,
      order: [...this.#agents.keys()],
      agents: Object.fromEntries([...this.#agents].map(([name, agent]) => [name, agent.saveState()])),
    };
  }
}

const STRIPPED = 'the end signal was stripped';

/** The code may list agents in another order than the conversation that it goes on with. */
function inOrder<Agent>(agents: ReadonlyMap<string, Agent>, order: readonly string[]): ReadonlyMap<string, Agent> {
  const place = (name: string) => (order.includes(name) ? order.indexOf(name) : order.length);
  return new Map([...agents].toSorted(([a], [b]) => place(a) - place(b)));
}

/** A checkpoint names models by id, so one id must mean one model. Objects of a provider's package with one id are the same model. */
function checkModels(agents: readonly StandardAgent[]): void {
  const known = new Map<string, ChatModel>();
  for (const { name, model } of agents) {
    if (model === undefined || !('reply' in model)) continue;
    if ((known.get(model.id) ?? model) !== model) {
      throw new InvalidInputError(
        `There are two models with the id "${model.id}"; "${name}" has the second. Give one of them another id.`,
        { details: { modelId: model.id, agent: name } },
      );
    }
    known.set(model.id, model);
  }
}

function createRecord(settings: ChatSettings): ChatRecord {
  return {
    settings,
    problem: '',
    initiator: PERSON,
    stage: 'new',
    messages: [],
    round: 0,
    roundLimit: settings.maxRounds,
    roundsFrom: 0,
    lastSpeaker: null,
    nextSpeaker: null,
    pendingReply: null,
    pendingInput: null,
    randomState: settings.seed,
    selectorTotals: NO_TOTALS,
    endOverruledAt: null,
    end: null,
  };
}
