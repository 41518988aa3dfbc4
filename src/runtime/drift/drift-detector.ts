import { type DriftAssessment, weigh } from './assessment.ts';
import { createSignals } from './create-signals.ts';
import { type DriftSnapshot, readDriftSnapshot } from './drift-snapshot.ts';
import { Ledger } from './ledger.ts';
import type { SignalStates } from './signals/signal-states.ts';
import { boundText } from './step/bounded-text.ts';
import { type DriftEvent, type ReadEvent, readEvent } from './step/drift-event.ts';
import { type DriftOptions, type ReadDriftOptions, readDriftOptions } from './step/drift-options.ts';
import { askJudge, clipEvent, type HeardVerdict, type JudgeQuestion, problemOf } from './step/judge.ts';
import type { DriftEvidence, Signal } from './step/signal.ts';
import { StepTracker } from './step/step-tracker.ts';

/** Evidence is capped at this many times the alarm, so that a recovered agent is believed again soon. */
const CAP_ALARMS = 3;
const MAX_GOAL_CHARS = 4000;
/** The fewest events between two questions to the judge, and how many of the last ones it sees. */
const JUDGE_INTERVAL_EVENTS = 10;
const JUDGE_WINDOW_EVENTS = 20;

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
  #goal: string | undefined;
  #window: DriftEvent[] = [];
  #nextJudgeAt = 0;

  constructor(options: DriftOptions = {}) {
    this.#options = readDriftOptions(options);
    this.#signals = createSignals(this.#options);
    this.#ledger = new Ledger(CAP_ALARMS * this.#options.alarmNats);
    this.#goal = goalOf(this.#options);
  }

  /** Takes in the next event and says what is to be thought of the run now. What cannot be read as an event counts as an empty one. */
  observe(event: DriftEvent): DriftAssessment {
    const read = readEvent(event, this.#count++);
    const reading = this.#tracker.observe(read);
    const input = { event: read, reading };
    const isPolling = reading !== undefined && this.#options.pollingTools.includes(reading.step.name);
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
    const { judge, judgeTimeoutMs } = this.#options;
    if (judge === undefined || assessment.status !== 'suspect' || assessment.index < this.#nextJudgeAt)
      return assessment;
    this.#nextJudgeAt = assessment.index + JUDGE_INTERVAL_EVENTS;
    const ledger = this.#ledger;
    try {
      const verdict = await askJudge(judge, this.#question(assessment), judgeTimeoutMs);
      // What was asked about may have been forgotten meanwhile, by a reset or a restore.
      return this.#ledger === ledger ? this.#hear(assessment, verdict) : assessment;
    } catch (error) {
      return { ...assessment, judgeProblem: problemOf(error) };
    }
  }

  /** Forgets everything, as after a restore with a clean context; events are counted on, also those until the judge may be asked again. */
  reset(): void {
    this.#tracker = new StepTracker();
    this.#signals = createSignals(this.#options);
    this.#ledger = new Ledger(CAP_ALARMS * this.#options.alarmNats);
    this.#goal = goalOf(this.#options);
    this.#window = [];
  }

  /** All it remembers; with the same options and the same further events, a detector restored from it says the same. */
  snapshot(): DriftSnapshot {
    return structuredClone({
      version: 1,
      count: this.#count,
      tracker: this.#tracker.snapshot(),
      signals: Object.fromEntries(this.#signals.map((signal) => [signal.name, signal.snapshot?.()])),
      ledger: this.#ledger.snapshot(),
      goal: this.#goal,
      window: this.#window,
      nextJudgeAt: this.#nextJudgeAt,
    });
  }

  /** Goes on from what was remembered; what is no snapshot is an `InvalidInputError`, and changes nothing. */
  restore(snapshot: DriftSnapshot): void {
    const copy = readDriftSnapshot(snapshot);
    this.#count = copy.count;
    this.#tracker = new StepTracker(copy.tracker);
    this.#signals = createSignals(this.#options, copy.signals as Partial<SignalStates>);
    this.#ledger = new Ledger(CAP_ALARMS * this.#options.alarmNats, copy.ledger);
    this.#goal = copy.goal;
    this.#window = copy.window.slice(-JUDGE_WINDOW_EVENTS);
    this.#nextJudgeAt = copy.nextJudgeAt;
  }

  /** What the judge will see is kept only if there is a judge. */
  #keep(event: DriftEvent, read: ReadEvent): void {
    if (this.#options.judge === undefined) return;
    if (read.kind === 'goal') this.#goal = boundText(read.text, MAX_GOAL_CHARS);
    this.#window.push(clipEvent(event));
    if (this.#window.length > JUDGE_WINDOW_EVENTS) this.#window.shift();
  }

  #question({ evidence }: DriftAssessment): JudgeQuestion {
    // A copy: what the judge does to it must not change what is remembered.
    return structuredClone({ goal: this.#goal, window: this.#window, evidence });
  }

  #hear(assessment: DriftAssessment, verdict: HeardVerdict | undefined): DriftAssessment {
    if (verdict === undefined) {
      return { ...assessment, judgeProblem: 'The judge did not answer with a number "unproductive" from 0 to 1.' };
    }
    const evidence: DriftEvidence = {
      signal: 'judge',
      kind: assessment.kinds[0] ?? 'stall',
      agent: assessment.agent ?? '',
      nats: verdict.nats,
      steps: [assessment.index],
      reason: verdict.reason,
    };
    this.#ledger.add(evidence);
    return this.#assess(assessment.index);
  }

  #assess(index: number): DriftAssessment {
    const { worst, ...verdict } = weigh(this.#ledger.accounts(), this.#options.alarmNats);
    const isHealthy = worst === undefined || verdict.status === 'healthy';
    return {
      index,
      ...verdict,
      ...(isHealthy ? NOTHING_HELD : this.#ledger.caseAgainst(worst)),
      judgeProblem: undefined,
    };
  }
}

/** The goal that is given, as far as a judge is told it. */
function goalOf({ goal }: ReadDriftOptions): string | undefined {
  return goal === undefined ? undefined : boundText(goal, MAX_GOAL_CHARS);
}

type Finding = Omit<DriftEvidence, 'signal' | 'kind'>;

/** Field by field: a spread, made for nearly every event, took a tenth of all the time. */
function evidenceOf({ name, kind }: Signal, { agent, nats, steps, reason }: Finding): DriftEvidence {
  return { signal: name, kind, agent, nats, steps, reason };
}

const NOTHING_HELD = Object.freeze({ agent: undefined, onset: undefined, evidence: Object.freeze([]), summary: '' });
