import { InvalidInputError } from '../../core/errors.ts';
import { checkValue, wholeFrom } from '../../core/options.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { type AgentTotals, NO_TOTALS } from '../agent/agent-state.ts';
import { PERSON } from '../agent/chat-message.ts';
import { AgentTeam } from '../run/agent-team.ts';
import { checkFleet, createSettings, type FleetOptions } from './fleet-options.ts';
import {
  FLEET_KIND,
  type FleetPhase,
  type FleetRecord,
  type FleetSettings,
  type FleetState,
  parseFleetState,
} from './fleet-state.ts';

/** Agents and the ledgers by which an orchestrator leads them. */
export class Fleet extends AgentTeam<FleetState, FleetRecord> {
  constructor(options: FleetOptions) {
    checkFleet(options);
    const { agents, registry = new AgentRegistry() } = options;
    super(agents, createRecord(createSettings(options, registry)), registry);
  }

  protected get partner(): string {
    return this.record.settings.orchestratorName;
  }

  /** What the orchestrator used. */
  protected get ownTotals(): AgentTotals {
    return this.record.totals;
  }

  /** Forgets the conversation, here and in every agent. Task, ledgers and counts of rounds and resets stay. */
  clearConversation(): void {
    this.change({ messages: [], stalls: 0 });
    for (const agent of this.agents) {
      agent.rewriteHistory(this.partner, []);
      agent.resetAutoReplies();
    }
  }

  /**
   * Takes another request of the person: a user turn of the conversation, and part of the task from now on. What waited for an answer is
   * asked no more, a turn that was cut short is dropped, and rounds, stalls and resets count anew.
   */
  addPrompt(prompt: string): void {
    if (prompt.trim() === '') throw new InvalidInputError('The prompt is empty. Say what the fleet is to do next.');
    const { followUps } = this.record;
    const phase = this.#phaseForPrompt();
    const isHeard = phase === 'progress';
    this.change({ followUps: [...followUps, prompt], requests: {}, stalls: 0, nextSpeaker: null });
    this.change({ phase, end: null, ending: null, planFeedback: phase === 'plan' ? prompt : null });
    this.grantRounds();
    if (isHeard) this.append({ name: PERSON, content: prompt });
    for (const agent of this.agents) if (agent.status === 'completed') agent.setStatus('running');
  }

  /** A team at work hears it; a plan that is not in force yet is made again, with the facts there are. */
  #phaseForPrompt(): FleetPhase {
    const { phase, taskLedger, messages, end } = this.record;
    if (phase === 'new') return 'new';
    if (taskLedger === null) return 'facts';
    const isAtWork = phase !== 'facts' && phase !== 'plan' && phase !== 'review' && phase !== 'open';
    return isAtWork && messages.length > 0 && end?.reason !== 'plan_rejected' ? 'progress' : 'plan';
  }

  /**
   * Lets it go on for so many rounds from here, and for as many resets as its settings say; also if a limit had ended it. What is satisfied,
   * or whose plan was rejected, stays ended: only a prompt gives it something to do.
   */
  grantRounds(rounds: number = this.record.settings.maxRoundCount): void {
    checkValue(rounds, wholeFrom(1), 'The number of rounds');
    const { rounds: done, resets, settings, end, ending, phase } = this.record;
    const reason = end?.reason ?? ending;
    const isFinal = reason === 'satisfied' || reason === 'plan_rejected';
    if (end !== null && isFinal) return;
    const ended = phase === 'speak' ? done - 1 : done; // a round that is under way is one of them
    this.change({ roundLimit: ended + rounds, resetLimit: resets + settings.maxResetCount });
    if (reason !== null && !isFinal) this.#reopen(phase);
  }

  #reopen(phase: FleetPhase): void {
    const isOver = phase === 'ended' || phase === 'answer';
    this.change({ end: null, ending: null, ...(isOver && { phase: 'progress' }) });
    for (const agent of this.agents) if (agent.status === 'completed') agent.setStatus('running');
  }

  /** Puts a state back into the fleet and its agents; returns what could not be put back. */
  loadState(state: unknown): readonly RestoreProblem[] {
    const parsed = parseFleetState(state);
    const problems = this.loadMembers(parsed);
    const { turn: _, ...record } = parsed.fleet; // it is a work of the run
    const { phase, nextSpeaker } = record;
    const isSpeakerGone = phase === 'speak' && this.agent(nextSpeaker ?? '') === undefined;
    this.change({ ...record, ...(isSpeakerGone && { phase: 'progress', nextSpeaker: null }) });
    return problems;
  }

  saveState(): FleetState {
    return { kind: FLEET_KIND, formatVersion: 1, fleet: this.record, ...this.saveMembers() };
  }
}

function createRecord(settings: FleetSettings): FleetRecord {
  return {
    settings,
    task: '',
    followUps: [],
    phase: 'new',
    taskLedger: null,
    progressLedger: null,
    messages: [],
    rounds: 0,
    stalls: 0,
    resets: 0,
    roundLimit: settings.maxRoundCount,
    resetLimit: settings.maxResetCount,
    planCount: 0,
    planFeedback: null,
    nextSpeaker: null,
    requests: {},
    answers: {},
    lastWords: '',
    ending: null,
    end: null,
    totals: NO_TOTALS,
  };
}
