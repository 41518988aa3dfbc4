import { InvalidInputError } from '../../core/errors.ts';
import { type DriftAssessment, weigh } from './assessment.ts';
import { createSignals } from './create-signals.ts';
import { type DriftEvent, type ReadEvent, readEvent } from './drift-event.ts';
import { type DriftOptions, type ReadDriftOptions, readDriftOptions } from './drift-options.ts';
import { clipEvent, type JudgeQuestion, verdictNats } from './judge.ts';
import { modelProbability } from './learned-model.ts';
import { Ledger, type LedgerState } from './ledger.ts';
import { addStep, EMPTY_SUMS, featuresOf, type RunFeatures, type RunSums } from './run-features.ts';
import type { DriftEvidence, Signal } from './signal.ts';
import { StepTracker, type StepTrackerState } from './step-tracker.ts';

/** Everything a detector remembers, as plain data to be saved with the agent's state. */
export type DriftSnapshot = {
  readonly version: 1;
  readonly count: number;
  readonly tracker: StepTrackerState;
  readonly signals: Readonly<Record<string, unknown>>;
  readonly ledger: LedgerState;
  readonly sums: RunSums;
  readonly goal: string | undefined;
  readonly window: readonly DriftEvent[];
  readonly nextJudgeAt: number;
};

/** Evidence is capped at this many times the alarm, so that a recovered agent is believed again soon. */
const CAP_ALARMS = 3;
const MAX_GOAL_CHARS = 4000;

/**
 * Watches a stream of events for signs that an agent gets nowhere or leaves its goal. The work per event and the memory do not
 * grow with the length of the stream. It holds no clock and makes no calls, except to a judge.
 */
export class DriftDetector {
  readonly #options: ReadDriftOptions;
  #count = 0;
  #tracker = new StepTracker();
  #signals: readonly Signal[];
  #ledger: Ledger;
  #sums = EMPTY_SUMS;
  #goal: string | undefined;
  #window: DriftEvent[] = [];
  #nextJudgeAt = 0;

  constructor(options: DriftOptions = {}) {
    this.#options = readDriftOptions(options);
    this.#signals = createSignals(this.#options);
    this.#ledger = new Ledger(CAP_ALARMS * this.#options.alarmNats);
    this.#goal = this.#options.goal;
  }

  /** Takes in the next event and says what is to be thought of the run now. */
  observe(event: DriftEvent): DriftAssessment {
    const read = readEvent(event, this.#count++);
    const reading = this.#tracker.observe(read);
    const input = { event: read, reading };
    const isPolling = reading !== undefined && this.#options.pollingTools.includes(reading.step.name);
    if (reading !== undefined && !isPolling) this.#sums = addStep(this.#sums, reading);
    for (const signal of this.#signals) {
      if (isPolling && (signal.kind === 'loop' || signal.kind === 'stall')) continue;
      const found = signal.observe(input);
      if (found !== undefined) this.#ledger.add(evidenceOf(signal, found));
    }
    this.#keep(event, read);
    return this.#assess(read.index);
  }

  /** Like `observe`, and asks the judge if there is one and the evidence is in doubt. A judge that fails is reported, not thrown. */
  async assess(event: DriftEvent): Promise<DriftAssessment> {
    const assessment = this.observe(event);
    const { judge, judgeIntervalEvents } = this.#options;
    if (judge === undefined || assessment.status !== 'suspect' || assessment.index < this.#nextJudgeAt)
      return assessment;
    this.#nextJudgeAt = assessment.index + judgeIntervalEvents;
    try {
      const verdict = await judge(this.#question(assessment));
      return this.#hear(assessment, verdictNats(verdict), verdict.reason);
    } catch (error) {
      return { ...assessment, judgeProblem: error instanceof Error ? error.message : String(error) };
    }
  }

  /** What the run looks like as a whole, calls of `pollingTools` aside: to rank runs by, and the inputs of the learned model. */
  features(): RunFeatures {
    return featuresOf(this.#sums);
  }

  /** Forgets everything, as after a restore with a clean context; events are counted on. */
  reset(): void {
    this.#tracker = new StepTracker();
    this.#signals = createSignals(this.#options);
    this.#ledger = new Ledger(CAP_ALARMS * this.#options.alarmNats);
    this.#sums = EMPTY_SUMS;
    this.#window = [];
  }

  /** All it remembers; with the same options and the same further events, a detector restored from it says the same. */
  snapshot(): DriftSnapshot {
    return structuredClone({
      version: 1,
      count: this.#count,
      tracker: this.#tracker.snapshot(),
      signals: Object.fromEntries(this.#signals.map((signal) => [signal.name, signal.snapshot()])),
      ledger: this.#ledger.snapshot(),
      sums: this.#sums,
      goal: this.#goal,
      window: this.#window,
      nextJudgeAt: this.#nextJudgeAt,
    });
  }

  /** Goes on from what was remembered. */
  restore(snapshot: DriftSnapshot): void {
    if (snapshot?.version !== 1) {
      throw new InvalidInputError(
        `A drift snapshot of version 1 was expected, but it is of version ${JSON.stringify(snapshot?.version)}. Start with a new detector.`,
      );
    }
    const copy = structuredClone(snapshot);
    this.#count = copy.count;
    this.#tracker = new StepTracker(copy.tracker);
    this.#signals = createSignals(this.#options, copy.signals);
    this.#ledger = new Ledger(CAP_ALARMS * this.#options.alarmNats, copy.ledger);
    this.#sums = { ...EMPTY_SUMS, ...copy.sums }; // a snapshot of an older release lacks some
    this.#goal = copy.goal;
    this.#window = [...copy.window];
    this.#nextJudgeAt = copy.nextJudgeAt;
  }

  /** What the judge will see is kept only if there is a judge. */
  #keep(event: DriftEvent, read: ReadEvent): void {
    if (this.#options.judge === undefined) return;
    if (read.kind === 'goal') this.#goal = read.text.slice(0, MAX_GOAL_CHARS);
    this.#window.push(clipEvent(event));
    if (this.#window.length > this.#options.judgeWindowEvents) this.#window.shift();
  }

  #question({ evidence }: DriftAssessment): JudgeQuestion {
    return { goal: this.#goal, window: [...this.#window], evidence };
  }

  #hear(assessment: DriftAssessment, nats: number | undefined, reason: string | undefined): DriftAssessment {
    if (nats === undefined) {
      return { ...assessment, judgeProblem: 'The judge did not answer with a number "unproductive" from 0 to 1.' };
    }
    const evidence: DriftEvidence = {
      signal: 'judge',
      kind: assessment.kinds[0] ?? 'stall',
      agent: assessment.agent ?? '',
      nats,
      steps: [assessment.index],
      reason: reason ?? 'The judge was asked.',
    };
    this.#ledger.add(evidence);
    return this.#assess(assessment.index);
  }

  #assess(index: number): DriftAssessment {
    const { worst, ...verdict } = weigh(this.#ledger.accounts(), this.#options);
    const { model } = this.#options;
    const isHealthy = worst === undefined || verdict.status === 'healthy';
    return {
      index,
      ...verdict,
      ...(isHealthy ? NOTHING_HELD : this.#ledger.caseAgainst(worst)),
      probability: model === undefined ? undefined : modelProbability(model, this.features()),
      judgeProblem: undefined,
    };
  }
}

type Finding = Omit<DriftEvidence, 'signal' | 'kind'>;

/** Field by field: a spread, made for nearly every event, took a tenth of all the time. */
function evidenceOf({ name, kind }: Signal, { agent, nats, steps, reason }: Finding): DriftEvidence {
  return { signal: name, kind, agent, nats, steps, reason };
}

const NOTHING_HELD = Object.freeze({ agent: undefined, onset: undefined, evidence: Object.freeze([]), summary: '' });
