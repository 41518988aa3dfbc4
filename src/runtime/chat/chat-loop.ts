import type { ChatMessage } from '../agent/chat-message.ts';
import { EXIT, type HumanRequest } from '../agent/reply.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { Script, World } from '../run/team-run.ts';
import { type ChatEnd, findEnd } from './chat-end.ts';
import type { ChatTypes } from './chat-kind.ts';
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

/**
 * Holds a conversation: each turn is one of a few moves, and which one comes next follows from the record alone. So a conversation goes on
 * from any checkpoint, whatever it was saved for.
 */
export class ChatLoop implements Script {
  readonly #chat: GroupChat;
  readonly #world: World<ChatTypes>;

  constructor(chat: GroupChat, world: World<ChatTypes>) {
    this.#chat = chat;
    this.#world = world;
  }

  async move(): Promise<void> {
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
    const { registry, agents } = this.#chat;
    for (const agent of agents) await agent.captureFiles(registry, this.#world.signal);
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
    const lines = this.#chat.members.map(({ name, description }) => `- ${name}: ${description}`);
    return { name: this.#chat.record.settings.managerName, content: `In this conversation are:\n${lines.join('\n')}` };
  }

  async #select(): Promise<void> {
    const { managerName } = this.#chat.record.settings;
    const { speaker, ...remembered } = await selectSpeaker({
      chat: this.#chat.record,
      agents: this.#chat.members,
      registry: this.#chat.registry,
      effects: this.#world.effects,
      signal: this.#world.signal,
      ask: (prompt, choices) => this.#ask({ agent: managerName, kind: 'speaker', prompt, choices }),
    });
    this.#chat.change(remembered);
    if (speaker !== undefined) this.#chat.change({ nextSpeaker: speaker });
    else await this.#close({ reason: 'no_next_speaker', detail: 'Nobody may or wants to speak next.' });
  }

  async #reply(name: string): Promise<void> {
    const { effects, signal, onText, recall } = this.#world;
    const outcome = await this.#chat.openAgent(name).respond({
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
    await this.#world.onMessage?.(message);
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
      pendingReply: { speaker: person.name, message },
    });
  }

  #ask(question: Omit<HumanRequest, 'id'>): Promise<string> {
    const { messages, reopenings = 0 } = this.#chat.record;
    const place = reopenings === 0 ? messages.length : `${messages.length}+${reopenings}`;
    return this.#world.ask({ ...question, id: `${place}:${question.agent}:${question.kind}` });
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
