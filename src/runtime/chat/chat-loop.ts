import { hasErrorCode } from '../../core/errors.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { Effects } from '../agent/effects.ts';
import { type AskHuman, EXIT, type HumanRequest, isWaitingForInput, WaitingForInput } from '../agent/human.ts';
import type { Recall } from '../agent/run-memory.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import { type ChatEnd, findEnd } from './chat-end.ts';
import type { PendingReply } from './chat-state.ts';
import type { GroupChat } from './group-chat.ts';
import { selectSpeaker } from './speaker-selection.ts';

/** At which moments a conversation is saved. */
export type ChatTrigger =
  | 'conversation_start'
  | 'conversation_continued'
  | 'message_appended'
  | 'speaker_reply_generated'
  | 'waiting_for_input'
  | 'run_failed'
  | 'conversation_end';

/** Answers that people leave for a conversation, from anywhere. */
export type ConversationAnswers = {
  readonly read: (requestId: string) => Promise<string | undefined>;
  /** Leaves one, unless somebody else was faster; returns the one that counts. */
  readonly give: (requestId: string, answer: string) => Promise<string>;
};

/** The world as a running conversation sees it. */
export type ChatWorld = {
  readonly effects: Effects;
  readonly save: (trigger: ChatTrigger, facts?: { readonly end?: ChatEnd; readonly error?: unknown }) => Promise<void>;
  readonly ask?: AskHuman | undefined;
  readonly answers: ConversationAnswers;
  readonly signal?: AbortSignal | undefined;
  readonly onText?: ((speaker: string, delta: string) => void) | undefined;
  readonly onMessage?: ((message: ChatMessage) => void) | undefined;
  /** Fills the `{memory}` blocks of prompts. */
  readonly recall?: Recall | undefined;
};

/** Why a run stopped. All but `ended` can be continued as they are. */
export type ChatStop =
  | { readonly status: 'ended'; readonly end: ChatEnd }
  | { readonly status: 'waiting'; readonly request: HumanRequest }
  | { readonly status: 'failed'; readonly error: unknown }
  | { readonly status: 'stopped' };

/** These are not the agents' failures: going on would hide them. */
const FATAL = ['CONFLICT', 'CLOSED', 'STORAGE', 'CORRUPT', 'REPLAY_MISMATCH'] as const;

/**
 * Holds a conversation: each turn is one of a few moves, and which one comes next follows from the record alone. So a conversation goes on
 * from any checkpoint, whatever it was saved for.
 */
export class ChatLoop {
  readonly #chat: GroupChat;
  readonly #world: ChatWorld;
  /** How often the move under way asked the same: whoever asks again was not content with the answer. */
  readonly #asked = new Map<string, number>();

  constructor(chat: GroupChat, world: ChatWorld) {
    this.#chat = chat;
    this.#world = world;
  }

  /** Runs until the conversation ends, waits for a person, fails, or is stopped. */
  async run(): Promise<ChatStop> {
    try {
      for (let { end } = this.#chat.record; ; { end } = this.#chat.record) {
        if (end !== null) return { status: 'ended', end };
        this.#world.signal?.throwIfAborted();
        this.#asked.clear();
        await this.#move();
      }
    } catch (error) {
      return this.#stop(error);
    }
  }

  async #move(): Promise<void> {
    const { stage, pendingReply, nextSpeaker } = this.#chat.record;
    if (stage === 'new') return this.#start();
    if (stage === 'started') return this.#open();
    if (pendingReply !== null) return this.#append(pendingReply);
    const end = this.#findEnd();
    if (end !== undefined) return this.#close(end);
    if (nextSpeaker === null) return this.#select();
    return this.#reply(nextSpeaker);
  }

  async #start(): Promise<void> {
    this.#chat.change({ stage: 'started' });
    await this.#world.save('conversation_start');
  }

  /** Introduces everybody and states the problem. */
  async #open(): Promise<void> {
    const { problem, initiator, settings } = this.#chat.record;
    for (const agent of this.#chat.agents) {
      agent.setStatus('running');
      if (settings.sendIntroductions) this.#chat.tell(agent, this.#introduce());
    }
    const message = { name: initiator, content: problem };
    const speaker = this.#chat.agent(initiator);
    if (speaker !== undefined) this.#chat.tell(speaker, message);
    this.#chat.change({ stage: 'open', lastSpeaker: initiator });
    this.#chat.append(message);
    await this.#appended(message);
  }

  #introduce(): ChatMessage {
    const lines = this.#chat.agents.map((agent) => `- ${agent.name}: ${agent.introduction}`);
    return { name: this.#chat.record.settings.managerName, content: `In this conversation are:\n${lines.join('\n')}` };
  }

  async #select(): Promise<void> {
    const { managerName } = this.#chat.record.settings;
    const { speaker, ...remembered } = await selectSpeaker({
      chat: this.#chat.record,
      agents: this.#chat.agents.map((agent) => ({ name: agent.name, description: agent.introduction })),
      registry: this.#chat.registry,
      effects: this.#world.effects,
      signal: this.#world.signal,
      ask: (prompt, choices) => this.#ask({ agent: managerName, kind: 'speaker', prompt, choices }),
    });
    this.#chat.change({ ...remembered, pendingInput: null });
    if (speaker !== undefined) this.#chat.change({ nextSpeaker: speaker });
    else await this.#close({ reason: 'no_next_speaker', detail: 'Nobody may or wants to speak next.' });
  }

  async #reply(name: string): Promise<void> {
    const { effects, signal, onText, recall } = this.#world;
    const outcome = await this.#openAgent(name).respond({
      effects,
      registry: this.#chat.registry,
      partner: this.#chat.record.settings.managerName,
      ask: (prompt) => this.#ask({ agent: name, kind: 'reply', prompt }),
      signal,
      onText: onText && ((delta) => onText(name, delta)),
      recall,
    });
    if (outcome.message === undefined) return this.#close(describeSilence(name, outcome.silence));
    this.#chat.change({ pendingReply: { speaker: name, message: outcome.message }, pendingInput: null });
    if (this.#isSaved(name)) await this.#world.save('speaker_reply_generated');
  }

  async #append(reply: PendingReply): Promise<void> {
    this.#chat.appendReply(reply);
    await this.#appended(reply.message);
  }

  async #appended(message: ChatMessage): Promise<void> {
    const end = this.#findEnd();
    if (this.#isSaved(message.name)) await this.#world.save('message_appended', end === undefined ? {} : { end });
    this.#world.onMessage?.(message);
  }

  /** Nothing is lost without it: what the agent did is recorded, and the next checkpoint holds it. */
  #isSaved(speaker: string): boolean {
    return this.#chat.agent(speaker)?.saveState().runtime.checkpoint !== false;
  }

  #findEnd(): ChatEnd | undefined {
    const { messages, settings, round, roundLimit, roundsFrom, endOverruledAt } = this.#chat.record;
    const { inputTokens, outputTokens, costUsd } = this.#chat.totals;
    const last = messages.at(-1);
    if (last === undefined) return undefined;
    const totals = { round: round - roundsFrom, totalTokens: inputTokens + outputTokens, costUsd };
    const rules = {
      rules: settings.end,
      maxRounds: roundLimit - roundsFrom,
      // Who states a problem may quote the words that are to end it.
      isOverruled: round === 0 || endOverruledAt === messages.length,
    };
    return findEnd({ ...totals, ...rules, last }, this.#chat.registry);
  }

  /** Ends the conversation, unless its words ended it and a person has more to say. */
  async #close(end: ChatEnd): Promise<void> {
    const person = end.reason === 'signal' || end.reason === 'predicate' ? this.#findPerson() : undefined;
    if (person !== undefined) {
      const prompt = `${end.detail} Reply as ${person.name} to go on, or press Enter to end.`;
      const content = await this.#ask({ agent: person.name, kind: 'end', prompt });
      if (content !== '' && content !== EXIT) return this.#overrule(person, content);
    }
    for (const agent of this.#chat.agents) complete(agent);
    this.#chat.change({ end, nextSpeaker: null, pendingInput: null });
    await this.#world.save('conversation_end', { end });
  }

  /** Who is asked before the conversation ends: not the one who ended it. */
  #findPerson(): StandardAgent | undefined {
    const { lastSpeaker } = this.#chat.record;
    return this.#chat.agents.find(
      (agent) => agent.name !== lastSpeaker && agent.saveState().humanInputMode !== 'NEVER',
    );
  }

  #overrule(person: StandardAgent, content: string): void {
    const message = { name: person.name, content };
    this.#chat.tell(person, message);
    person.resetAutoReplies();
    const { messages } = this.#chat.record;
    this.#chat.change({
      endOverruledAt: messages.length,
      pendingInput: null,
      pendingReply: { speaker: person.name, message },
    });
  }

  async #ask(question: Omit<HumanRequest, 'id'>): Promise<string> {
    const { effects, signal } = this.#world;
    const input = { ...question, id: `${this.#chat.record.messages.length}:${question.agent}:${question.kind}` };
    const nth = (this.#asked.get(input.id) ?? 0) + 1;
    this.#asked.set(input.id, nth);
    const request = nth === 1 ? input : { ...input, id: `${input.id}:${nth}` };
    return effects.run({ kind: 'human', name: question.agent, input, signal }, async (attempt) => {
      const answer = await this.#findAnswer(request, attempt.signal);
      if (answer !== undefined) return answer.trim();
      // Saved while the question is in flight: its answer takes its place in the recording, and a replay waits for nobody.
      await this.#wait(request);
      throw new WaitingForInput(request);
    });
  }

  /** What was answered elsewhere comes first. What was asked elsewhere, too, is answered for everybody. */
  async #findAnswer(request: HumanRequest, signal: AbortSignal | undefined): Promise<string | undefined> {
    const { answers, ask } = this.#world;
    const known = await answers.read(request.id);
    if (known !== undefined) return known;
    const said = await ask?.(request, { signal });
    const isOpen = said !== undefined && this.#chat.record.pendingInput?.id === request.id;
    return isOpen ? answers.give(request.id, said) : said;
  }

  async #wait(request: HumanRequest): Promise<void> {
    this.#chat.change({ pendingInput: request });
    await this.#world.save('waiting_for_input');
  }

  #openAgent(name: string): StandardAgent {
    const agent = this.#chat.agent(name);
    if (agent === undefined) throw new Error(`There is no agent "${name}" in the group.`);
    return agent;
  }

  /** Leaves the conversation in a state that can be continued, and says why it stopped. */
  async #stop(error: unknown): Promise<ChatStop> {
    if (this.#world.signal?.aborted) return { status: 'stopped' };
    if (isWaitingForInput(error)) {
      const { request } = error;
      if (this.#chat.record.pendingInput?.id !== request.id) await this.#wait(request); // a replay came to its end
      return { status: 'waiting', request };
    }
    if (FATAL.some((code) => hasErrorCode(error, code))) throw error;
    await this.#world.save('run_failed', { error });
    return { status: 'failed', error };
  }
}

/** Who was paused is done as well; who failed or was cancelled stays so. */
function complete(agent: StandardAgent): void {
  agent.unpause();
  if (agent.status !== 'error' && agent.status !== 'cancelled') agent.setStatus('completed');
}

function describeSilence(name: string, silence: 'exit' | 'limit' | 'nothing_to_say'): ChatEnd {
  if (silence === 'exit') return { reason: 'exit', detail: `The person behind ${name} ended the conversation.` };
  const why = silence === 'limit' ? 'has replied as often as it may by itself' : 'has nothing to say';
  return { reason: 'no_reply', detail: `${name} ${why}.` };
}
