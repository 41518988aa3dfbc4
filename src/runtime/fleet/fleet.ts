import { InvalidInputError } from '../../core/errors.ts';
import { freezeState } from '../../core/freeze.ts';
import { checkValue, wholeFrom } from '../../core/options.ts';
import type { RestoreProblem } from '../../manager/engine/loading.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { type AgentTotals, addTotals, NO_TOTALS } from '../agent/agent-state.ts';
import { type ChatMessage, PERSON } from '../agent/chat-message.ts';
import { loadAgents } from '../agent/load-agents.ts';
import { type HeardMessage, toMessage } from '../agent/reply.ts';
import type { StandardAgent } from '../agent/standard-agent.ts';
import { checkFleet, createSettings, type FleetOptions } from './fleet-options.ts';
import {
  FLEET_KIND,
  type FleetPhase,
  type FleetRecord,
  type FleetSettings,
  type FleetState,
  parseFleetState,
} from './fleet-state.ts';

/** Agents and the ledgers by which an orchestrator leads them. It does nothing by itself. */
export class Fleet {
  readonly registry: AgentRegistry;
  readonly #agents: ReadonlyMap<string, StandardAgent>;
  #record: FleetRecord;

  constructor(options: FleetOptions) {
    checkFleet(options);
    this.registry = options.registry ?? new AgentRegistry();
    const settings = createSettings(options, this.registry);
    this.#agents = new Map(options.agents.map((agent) => [agent.name, agent]));
    for (const agent of options.agents) this.registry.addAgent(agent);
    this.#record = createRecord(settings);
  }

  get record(): FleetRecord {
    return this.#record;
  }

  get agents(): readonly StandardAgent[] {
    return [...this.#agents.values()];
  }

  agent(name: string): StandardAgent | undefined {
    return this.#agents.get(name);
  }

  /** What everybody has used, the orchestrator included. */
  get totals(): AgentTotals {
    return this.agents.map((agent) => agent.saveState().totals).reduce(addTotals, this.#record.totals);
  }

  /** Records a change. */
  change(change: Partial<FleetRecord>): void {
    const record = { ...this.#record, ...change };
    freezeState(record);
    this.#record = record;
  }

  /** Says something to everybody, by the person unless it has a name: it is in the conversation, and all but its speaker hear it. */
  append(said: string | HeardMessage | ChatMessage): void {
    const message = toMessage(said, PERSON);
    this.change({ messages: [...this.#record.messages, message] });
    const { orchestratorName } = this.#record.settings;
    for (const agent of this.agents) if (agent.name !== message.name) agent.receive(message, orchestratorName);
  }

  /** Forgets the conversation, here and in every agent. Task, ledgers and counts of rounds and resets stay. */
  clearConversation(): void {
    this.change({ messages: [], stalls: 0 });
    for (const agent of this.agents) {
      agent.rewriteHistory(this.#record.settings.orchestratorName, []);
      agent.resetAutoReplies();
    }
  }

  /**
   * Takes another request of the person: a user turn of the conversation, and part of the task from now on. What waited for an answer is
   * asked no more, a turn that was cut short is dropped, and rounds, stalls and resets count anew.
   */
  addPrompt(prompt: string): void {
    if (prompt.trim() === '') throw new InvalidInputError('The prompt is empty. Say what the fleet is to do next.');
    const { followUps } = this.#record;
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
    const { phase, taskLedger, messages, end } = this.#record;
    if (phase === 'new') return 'new';
    if (taskLedger === null) return 'facts';
    const isAtWork = phase !== 'facts' && phase !== 'plan' && phase !== 'review' && phase !== 'open';
    return isAtWork && messages.length > 0 && end?.reason !== 'plan_rejected' ? 'progress' : 'plan';
  }

  /**
   * Lets it go on for so many rounds from here, and for as many resets as its settings say; also if a limit had ended it. What is satisfied,
   * or whose plan was rejected, stays ended: only a prompt gives it something to do.
   */
  grantRounds(rounds: number = this.#record.settings.maxRoundCount): void {
    checkValue(rounds, wholeFrom(1), 'The number of rounds');
    const { rounds: done, resets, settings, end, ending, phase } = this.#record;
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

  /** Puts a state back into the fleet and its agents; answers what could not be put back. */
  loadState(state: unknown): readonly RestoreProblem[] {
    const parsed = parseFleetState(state);
    const { turn: _, ...record } = parsed.fleet; // it is a work of the run
    const { phase, nextSpeaker } = record;
    const isSpeakerGone = phase === 'speak' && !this.#agents.has(nextSpeaker ?? '');
    this.change({ ...record, ...(isSpeakerGone && { phase: 'progress', nextSpeaker: null }) });
    return loadAgents(this.#agents, parsed, this.registry);
  }

  /** Everything a checkpoint holds of the fleet and its agents. */
  saveState(): FleetState {
    return {
      kind: FLEET_KIND,
      formatVersion: 1,
      fleet: this.#record,
      order: [...this.#agents.keys()],
      agents: Object.fromEntries([...this.#agents].map(([name, agent]) => [name, agent.saveState()])),
    };
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
