import type { ChatMessage } from '../agent/chat-message.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import { REJECT } from '../run/request-answers.ts';
import type { Script, World } from '../run/team-run.ts';
import type { Fleet } from './fleet.ts';
import type { FleetTypes } from './fleet-kind.ts';
import {
  ANSWERED,
  APPROVE,
  describeEnd,
  type FleetEndReason,
  type FleetRecord,
  findLimit,
  type TaskLedger,
  wordRequest,
} from './fleet-state.ts';
import { GatedEffects, type ToolCallEvent } from './gated-effects.ts';
import { LedgerKeeper, wordLedger } from './ledger-keeper.ts';
import type { ProgressLedger } from './progress-ledger.ts';

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

/** What the caller of a run is told besides. */
export type FleetCallbacks = {
  readonly onTaskLedger?: (ledger: TaskLedger) => void;
  readonly onProgressLedger?: (ledger: ProgressLedger) => void;
  /** Called before tools and code, also when their result is taken from a recording. */
  readonly onToolCall?: (call: ToolCallEvent) => void;
};

/** Leads a fleet: one move after the other, and which one is next is the phase of the record. */
export class FleetLoop implements Script {
  readonly #fleet: Fleet;
  readonly #world: World<FleetTypes>;
  readonly #callbacks: FleetCallbacks;
  #keeper: LedgerKeeper;

  constructor(fleet: Fleet, world: World<FleetTypes>, callbacks: FleetCallbacks) {
    this.#fleet = fleet;
    this.#world = world;
    this.#callbacks = callbacks;
    this.#keeper = new LedgerKeeper(fleet, world);
  }

  async move(): Promise<void> {
    this.#keeper = new LedgerKeeper(this.#fleet, this.#world);
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
    const { answer, value } = await this.#world.ask({
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
    this.#fleet.clearConversation();
    const content = wordLedger(wordRequest(this.#fleet.record), this.#fleet.members, ledger);
    await this.#say({ name: settings.orchestratorName, content }, { phase: 'progress', progressLedger: null });
    await this.#callbacks.onTaskLedger?.(ledger);
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
    await this.#callbacks.onProgressLedger?.(ledger);
    if (ledger.is_request_satisfied.answer) return this.#fleet.change({ ending: 'satisfied', phase: 'answer' });
    if (this.#fleet.record.stalls > settings.maxStallCount) return this.#reset();
    const message = { name: settings.orchestratorName, content: ledger.instruction_or_question.answer };
    await this.#say(message, { nextSpeaker: ledger.next_speaker.answer, phase: 'speak' });
  }

  /** The facts are brought up to date, a new plan is made, and the conversation begins anew. */
  #reset(): void {
    const { resets, resetLimit } = this.#fleet.record;
    if (resets >= resetLimit) this.#fleet.change({ ending: 'max_resets', phase: 'answer' });
    else this.#fleet.change({ resets: resets + 1, stalls: 0, phase: 'facts' });
  }

  async #speak(): Promise<void> {
    const { rounds, settings, nextSpeaker } = this.#fleet.record;
    const agent = this.#fleet.openAgent(nextSpeaker ?? '');
    const { onText, signal, recall } = this.#world;
    const turnId = `round-${rounds}`;
    const outcome = await agent.respond({
      effects: new GatedEffects({
        effects: this.#world.effects,
        policy: settings.policy,
        agent: agent.name,
        turnId,
        ask: (question) => this.#world.ask(question),
        onToolCall: this.#callbacks.onToolCall,
      }),
      registry: this.#fleet.registry,
      partner: settings.orchestratorName,
      ask: async (message) => {
        const question = { id: `${turnId}-reply`, kind: 'reply', agent: agent.name, message, options: [] } as const;
        return (await this.#world.ask(question)).answer;
      },
      signal,
      recall,
      onText: onText && ((delta) => onText(agent.name, delta)),
    });
    if (outcome.message === undefined && outcome.silence === 'exit')
      return this.#finish('exit', this.#fleet.record.lastWords);
    await this.#hear(agent, outcome.message);
    // Nothing is lost without it: what the round did is recorded, and the next checkpoint holds it.
    if (agent.saveState().runtime.checkpoint) await this.#world.save('round_completed');
  }

  async #hear({ name }: StandardAgent, message: ChatMessage | undefined): Promise<void> {
    const { settings, lastWords } = this.#fleet.record;
    const content = message?.content.trim() ?? '';
    const words = content === '' ? lastWords : content;
    const { totals } = this.#keeper;
    const change = { phase: 'progress', nextSpeaker: null, lastWords: words, totals } as const;
    await this.#say(message ?? { name: settings.orchestratorName, content: `${name} has nothing to say.` }, change);
  }

  async #answer(): Promise<void> {
    const reason = this.#fleet.record.ending ?? 'satisfied';
    const { lastWords } = this.#fleet.record;
    const text = ANSWERED.includes(reason) ? await this.#keeper.composeAnswer(reason === 'satisfied') : lastWords;
    return this.#finish(reason, text.trim() === '' ? lastWords : text);
  }

  async #finish(reason: FleetEndReason, answer: string): Promise<void> {
    const end = { reason, detail: describeEnd(reason, this.#fleet.record), answer };
    for (const agent of this.#fleet.agents) agent.setStatus('completed');
    this.#settle({ end, ending: null, phase: 'ended', nextSpeaker: null, requests: {} });
    await this.#world.save('fleet_end');
  }

  /** A move is complete: what the orchestrator used for it counts. */
  #settle(change: Partial<FleetRecord>): void {
    this.#fleet.change({ ...change, totals: this.#keeper.totals });
  }

  /** The move is complete before anybody is told: a callback that fails must not make it happen again. */
  async #say(message: ChatMessage, change: Partial<FleetRecord>): Promise<void> {
    this.#fleet.append(message);
    this.#fleet.change(change);
    await this.#world.onMessage?.(message);
  }
}

/** One more if it does not move or goes in circles, else one less. */
function countStalls(stalls: number, { is_in_loop: loop, is_progress_being_made: progress }: ProgressLedger): number {
  return !progress.answer || loop.answer ? stalls + 1 : Math.max(0, stalls - 1);
}
