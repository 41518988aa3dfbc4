import { InvalidInputError } from '../../core/errors.ts';
import { checkOptions, checkValue, flag, type OptionChecks, record, string, wholeFrom } from '../../core/options.ts';
import { editMessage, findCopies } from '../../manager/branch/message-copies.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import { standardAgents } from '../agent/agent-options.ts';
import { AgentRegistry, registry } from '../agent/agent-registry.ts';
import { type AgentTotals, NO_TOTALS } from '../agent/agent-state.ts';
import { type ChatMessage, PERSON } from '../agent/chat-message.ts';
import type { HeardMessage } from '../agent/reply.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { ChatModel, LanguageModel } from '../model/chat-model.ts';
import type { LlmConfig } from '../model/llm-config.ts';
import { AgentTeam } from '../run/agent-team.ts';
import { type GivenEndRules, stripSignals } from './chat-end.ts';
import { checkSettings, createSettings, SETTINGS } from './chat-settings.ts';
import {
  CHAT_KIND,
  type ChatRecord,
  type ChatSettings,
  type ChatState,
  type PendingReply,
  parseChatState,
  saidIn,
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

const wholeRounds = wholeFrom(1);

const REOPEN: OptionChecks<ReopenOptions> = { rounds: { required: wholeRounds }, stripSignal: flag };

/** A conversation of several agents: who is in it, what was said, and whose turn it is. */
export class GroupChat extends AgentTeam<ChatState, ChatRecord> {
  constructor(options: GroupChatOptions) {
    checkOptions(options, OPTIONS, 'new GroupChat()');
    const { agents, registry = new AgentRegistry() } = options;
    checkModels(agents);
    const settings = createSettings(options, registry);
    const names = agents.map(({ name }) => name);
    checkSettings(settings, names, registry);
    super(agents, createRecord(settings), registry);
  }

  protected get partner(): string {
    return this.record.settings.managerName;
  }

  protected get ownTotals(): AgentTotals {
    return this.record.selectorTotals;
  }

  get messages(): readonly ChatMessage[] {
    return this.record.messages;
  }

  /** Says something to one agent alone. */
  tell(agent: StandardAgent, message: string | HeardMessage | ChatMessage): void {
    agent.receive(message, this.partner);
  }

  /** Changes a message in the transcript, or the pending reply, and every agent's copy of it; returns the message as it is now. */
  edit(index: number, content: string, edit: { readonly reason?: string; readonly author?: string } = {}): ChatMessage {
    checkValue(content, string, 'The content of a message');
    const { messages, pendingReply } = this.record;
    const said = saidIn(this.record);
    const message = said[index];
    if (message === undefined) {
      throw new InvalidInputError(`There is no message ${index}: the conversation has ${said.length}.`, {
        details: { index, messages: said.length },
      });
    }
    const replacement = editMessage(message, content, edit);
    if (index < messages.length) this.change({ messages: messages.with(index, replacement) });
    else if (pendingReply !== null) this.change({ pendingReply: { ...pendingReply, message: replacement } });
    for (const agent of this.agents) {
      const history = agent.history(this.partner);
      const place = findCopies(said, history).get(index);
      if (place !== undefined) agent.rewriteHistory(this.partner, history.with(place, replacement));
    }
    return replacement;
  }

  /** Lets a conversation go on for a number of rounds, also if it had ended. What its own words ended stays ended unless they are stripped. */
  reopen(options: ReopenOptions): void {
    checkOptions(options, REOPEN, 'reopen()');
    const { stripSignal = false } = options;
    const { round, end } = this.record;
    this.change({ roundLimit: round + options.rounds, roundsFrom: round });
    if (stripSignal) this.#stripSignal();
    const isFinal = !stripSignal && (end?.reason === 'signal' || end?.reason === 'predicate');
    if (!isFinal) this.#goOn();
  }

  /** Lets a person say something that the conversation goes on from for a number of rounds, also if it had ended. */
  prompt(content: string, rounds: number): void {
    checkValue(content, string, 'The message of prompt()');
    checkValue(rounds, wholeRounds, 'The number of rounds');
    if (content.trim() === '') throw new InvalidInputError('The prompt is empty. Say what the group is to do.');
    const { pendingReply } = this.record;
    if (pendingReply !== null) this.appendReply(pendingReply);
    const { round, stage, messages } = this.record;
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
    const round = this.record.round + (isPrompt ? 0 : 1);
    this.change({ pendingReply: null, nextSpeaker: null, lastSpeaker: message.name, round });
    this.append(message);
  }

  #goOn(): void {
    const { end, reopenings = 0 } = this.record;
    if (end !== null) this.change({ end: null, reopenings: reopenings + 1 });
    if (this.record.stage !== 'open') return;
    for (const agent of this.agents) agent.setStatus('running');
  }

  /** Takes the words that would end the conversation out of its last message, said or pending; what else would end it is overruled. */
  #stripSignal(): void {
    const said = saidIn(this.record);
    const last = said.at(-1);
    if (last === undefined) return;
    const content = stripSignals(last.content, this.record.settings.end);
    if (content !== last.content) this.edit(said.length - 1, content, { reason: STRIPPED });
    this.change({ endOverruledAt: said.length });
  }

  /** Puts a state back into the conversation and its agents; returns what could not be put back. */
  loadState(state: unknown): readonly RestoreProblem[] {
    const parsed = parseChatState(state);
    const problems = this.loadMembers(parsed);
    const { nextSpeaker } = parsed.chat;
    const isThere = nextSpeaker !== null && this.agent(nextSpeaker) !== undefined;
    this.change({ ...parsed.chat, nextSpeaker: isThere ? nextSpeaker : null });
    return problems;
  }

  saveState(): ChatState {
    return { kind: CHAT_KIND, formatVersion: 1, chat: this.record, ...this.saveMembers() };
  }
}

const STRIPPED = 'the end signal was stripped';

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
