import { hasErrorCode } from '../../core/errors.ts';
import type { ChatMessage } from '../agent/chat-message.ts';
import type { Effects } from '../agent/effects.ts';
import type { Recall } from '../agent/run-memory.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import type { Fleet } from './fleet.ts';
import { describeEnd, type FleetEnd, type FleetEndReason, findLimit, mayAskForAnswer } from './fleet-end.ts';
import { APPROVE, type FleetQuestion, type FleetRequest, REJECT, WaitingForAnswer } from './fleet-request.ts';
import type { FleetRecord, TaskLedger } from './fleet-state.ts';
import { GatedEffects, type ToolCallEvent } from './gated-effects.ts';
import { LedgerKeeper } from './ledger-keeper.ts';
import { wordLedger, wordRequest } from './ledger-prompts.ts';
import type { ProgressLedger } from './progress-ledger.ts';
import type { AskingTurn, Questions } from './questions.ts';
import { TurnEffects } from './turn-effects.ts';

/** At which moments a fleet is saved. */
export type FleetTrigger =
  | 'fleet_start'
  | 'plan_created'
  | 'replanned'
  | 'round_completed'
  | 'resumed'
  | 'fleet_continued'
  | 'waiting_for_input'
  | 'run_failed'
  | 'fleet_end';

/** The world as a working fleet sees it. */
export type FleetWorld = {
  readonly effects: Effects;
  readonly save: (trigger: FleetTrigger, error?: unknown) => Promise<void>;
  readonly questions: Questions;
  readonly signal?: AbortSignal | undefined;
  readonly recall?: Recall | undefined;
  readonly onText?: ((speaker: string, delta: string) => void) | undefined;
  readonly onMessage?: ((message: ChatMessage) => void) | undefined;
  readonly onTaskLedger?: ((ledger: TaskLedger) => void) | undefined;
  readonly onProgressLedger?: ((ledger: ProgressLedger) => void) | undefined;
  readonly onToolCall?: ((call: ToolCallEvent) => void) | undefined;
};

/** Why a run stopped. All but `ended` can be continued as they are. */
export type FleetStop =
  | { readonly status: 'ended'; readonly end: FleetEnd }
  | { readonly status: 'waiting'; readonly request: FleetRequest }
  | { readonly status: 'failed'; readonly error: unknown }
  | { readonly status: 'stopped' };

/** These are not the agents' failures: going on would hide them. */
const FATAL = ['CONFLICT', 'CLOSED', 'STORAGE', 'CORRUPT', 'REPLAY_MISMATCH'] as const;

/** Leads a fleet: one move after the other, and which one is next is the phase of the record. */
export class FleetLoop {
  readonly #fleet: Fleet;
  readonly #world: FleetWorld;
  #effects: TurnEffects;
  #keeper: LedgerKeeper;

  constructor(fleet: Fleet, world: FleetWorld) {
    this.#fleet = fleet;
    this.#world = world;
    this.#effects = new TurnEffects(world.effects, fleet.record.turn);
    this.#keeper = this.#createKeeper();
  }

  /** Runs until the fleet ends, waits for a person, fails, or is stopped. */
  async run(): Promise<FleetStop> {
    try {
      for (let { end } = this.#fleet.record; ; { end } = this.#fleet.record) {
        if (end !== null) return { status: 'ended', end };
        this.#world.signal?.throwIfAborted();
        await this.#move();
        this.#effects = new TurnEffects(this.#world.effects, []);
        this.#keeper = this.#createKeeper();
      }
    } catch (error) {
      return this.#stop(error);
    }
  }

  #createKeeper(): LedgerKeeper {
    return new LedgerKeeper(this.#fleet, { ...this.#world, effects: this.#effects });
  }

  async #move(): Promise<void> {
    switch (this.#fleet.record.phase) {
      case 'new':
        return this.#start();
      case 'facts':
        return this.#gatherFacts();
      case 'plan':
        return this.#plan();
      case 'review':
        return this.#review();
      case 'open':
        return this.#open();
      case 'progress':
        return this.#assess();
      case 'speak':
        return this.#speak();
      case 'answer':
      case 'ended':
        return this.#answer();
    }
  }

  async #start(): Promise<void> {
    for (const agent of this.#fleet.agents) agent.setStatus('running');
    this.#fleet.change({ phase: 'facts' });
    await this.#world.save('fleet_start');
  }

  async #gatherFacts(): Promise<void> {
    const facts = await this.#keeper.gatherFacts();
    this.#settle({ taskLedger: { ...this.#taskLedger, facts }, phase: 'plan' });
  }

  async #plan(): Promise<void> {
    const plan = await this.#keeper.makePlan();
    const { planCount, settings } = this.#fleet.record;
    this.#settle({
      taskLedger: { ...this.#taskLedger, plan },
      planCount: planCount + 1,
      planFeedback: null,
      phase: settings.planReview ? 'review' : 'open',
    });
    await this.#world.save(planCount === 0 ? 'plan_created' : 'replanned');
  }

  async #review(): Promise<void> {
    const { planCount, resets, settings } = this.#fleet.record;
    const { answer, value } = await this.#ask({
      id: `plan-${planCount}`,
      kind: 'plan_review',
      agent: settings.orchestratorName,
      message: resets === 0 ? 'Is this plan all right?' : 'The last plan led nowhere. Is this one all right?',
      options: [APPROVE, 'edit', 'revise', REJECT],
      plan: this.#taskLedger.plan,
      isStalled: resets > 0,
    });
    if (answer === REJECT) return this.#finish('plan_rejected', this.#fleet.record.lastWords);
    const words = typeof value === 'string' ? value : '';
    if (answer === 'revise') return this.#settle({ planFeedback: words, phase: 'plan' });
    const plan = answer === 'edit' ? words : this.#taskLedger.plan;
    this.#settle({ taskLedger: { ...this.#taskLedger, plan }, phase: 'open' });
  }

  get #taskLedger(): TaskLedger {
    return this.#fleet.record.taskLedger ?? { facts: '', plan: '' };
  }

  /** Everybody hears the ledger, and nothing of what was said before. */
  async #open(): Promise<void> {
    const { settings } = this.#fleet.record;
    const ledger = this.#taskLedger;
    const team = this.#fleet.agents.map((agent) => ({ name: agent.name, description: agent.introduction }));
    this.#fleet.clearConversation();
    this.#say({ name: settings.orchestratorName, content: wordLedger(wordRequest(this.#fleet.record), team, ledger) });
    this.#fleet.change({ phase: 'progress', progressLedger: null });
    this.#world.onTaskLedger?.(ledger);
  }

  /** One round begins: is it done, does it move, and who goes on? */
  async #assess(): Promise<void> {
    const limit = findLimit(this.#fleet.record, this.#fleet.totals);
    if (limit !== undefined) return this.#settle({ ending: limit, phase: 'answer' });
    const ledger = await this.#keeper.assessProgress();
    const { rounds, stalls, settings } = this.#fleet.record;
    this.#settle({ rounds: rounds + 1 });
    if (ledger === undefined) return this.#reset();
    this.#fleet.change({ progressLedger: ledger, stalls: countStalls(stalls, ledger) });
    this.#world.onProgressLedger?.(ledger);
    if (ledger.is_request_satisfied.answer) return this.#fleet.change({ ending: 'satisfied', phase: 'answer' });
    if (this.#fleet.record.stalls > settings.maxStallCount) return this.#reset();
    this.#say({ name: settings.orchestratorName, content: ledger.instruction_or_question.answer });
    this.#fleet.change({ nextSpeaker: ledger.next_speaker.answer, phase: 'speak' });
  }

  /** The facts are brought up to date, a new plan is made, and the conversation begins anew. */
  #reset(): void {
    const { resets, resetLimit } = this.#fleet.record;
    if (resets >= resetLimit) this.#fleet.change({ ending: 'max_resets', phase: 'answer' });
    else this.#fleet.change({ resets: resets + 1, stalls: 0, phase: 'facts' });
  }

  async #speak(): Promise<void> {
    const agent = this.#openAgent();
    const { rounds, settings } = this.#fleet.record;
    const { onText, signal, recall } = this.#world;
    const turnId = `round-${rounds}`;
    const outcome = await agent.respond({
      effects: new GatedEffects({
        effects: this.#effects,
        policy: settings.policy,
        agent: agent.name,
        turnId,
        ask: (question) => this.#ask(question),
        onToolCall: this.#world.onToolCall,
      }),
      registry: this.#fleet.registry,
      partner: settings.orchestratorName,
      ask: (message) => this.#askToReply(agent.name, turnId, message),
      signal,
      recall,
      onText: onText && ((delta) => onText(agent.name, delta)),
    });
    if (outcome.message === undefined && outcome.silence === 'exit')
      return this.#finish('exit', this.#fleet.record.lastWords);
    this.#hear(agent, outcome.message);
    // Nothing is lost without it: what the round did is recorded, and the next checkpoint holds it.
    if (agent.saveState().runtime.checkpoint) await this.#world.save('round_completed');
  }

  #hear({ name }: StandardAgent, message: ChatMessage | undefined): void {
    const { settings, lastWords } = this.#fleet.record;
    this.#say(message ?? { name: settings.orchestratorName, content: `${name} has nothing to say.` });
    const content = message?.content.trim() ?? '';
    this.#settle({ phase: 'progress', nextSpeaker: null, lastWords: content === '' ? lastWords : content });
  }

  async #askToReply(agent: string, turnId: string, message: string): Promise<string> {
    const { answer } = await this.#ask({ id: `${turnId}-reply`, kind: 'reply', agent, message, options: [] });
    return answer;
  }

  #openAgent(): StandardAgent {
    const name = this.#fleet.record.nextSpeaker ?? '';
    const agent = this.#fleet.agent(name);
    if (agent === undefined) throw new Error(`There is no agent "${name}" in the fleet.`);
    return agent;
  }

  async #answer(): Promise<void> {
    const reason = this.#fleet.record.ending ?? 'satisfied';
    const { lastWords } = this.#fleet.record;
    const text = mayAskForAnswer(reason) ? await this.#keeper.composeAnswer(reason === 'satisfied') : lastWords;
    return this.#finish(reason, text.trim() === '' ? lastWords : text);
  }

  async #finish(reason: FleetEndReason, answer: string): Promise<void> {
    const end = { reason, detail: describeEnd(reason, this.#fleet.record), answer };
    for (const agent of this.#fleet.agents) agent.setStatus('completed');
    this.#settle({ end, ending: null, phase: 'ended', nextSpeaker: null });
    await this.#world.save('fleet_end');
  }

  /** A move is complete: what it called is not needed any more. */
  #settle(change: Partial<FleetRecord>): void {
    this.#fleet.change({ ...change, turn: [], totals: this.#keeper.totals });
  }

  #say(message: ChatMessage): void {
    this.#fleet.append(message);
    this.#world.onMessage?.(message);
  }

  #ask(question: FleetQuestion) {
    const turn: AskingTurn = { effects: this.#effects, save: () => this.#saveHalfway('waiting_for_input') };
    return this.#world.questions.ask(question, turn);
  }

  /** What the turn has done is part of the checkpoint, so that it is not done again. */
  async #saveHalfway(trigger: FleetTrigger, error?: unknown): Promise<void> {
    this.#fleet.change({ turn: this.#effects.done });
    await this.#world.save(trigger, error);
  }

  /** Leaves the fleet in a state that can be continued, and says why it stopped. */
  async #stop(error: unknown): Promise<FleetStop> {
    if (this.#world.signal?.aborted) return { status: 'stopped' };
    if (error instanceof WaitingForAnswer) return { status: 'waiting', request: error.request };
    if (FATAL.some((code) => hasErrorCode(error, code))) throw error;
    await this.#saveHalfway('run_failed', error);
    return { status: 'failed', error };
  }
}

/** One more if it does not move or goes in circles, else one less. */
function countStalls(stalls: number, { is_in_loop: loop, is_progress_being_made: progress }: ProgressLedger): number {
  return !progress.answer || loop.answer ? stalls + 1 : Math.max(0, stalls - 1);
}
