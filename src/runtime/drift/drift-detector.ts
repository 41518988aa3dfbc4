import { z } from 'zod';
import { InvalidInputError } from '../../core/errors.ts';
import { isRecord } from '../../core/options.ts';
import { type DriftOptions, type ReadDriftOptions, readDriftOptions } from './drift-options.ts';
import { type Account, Ledger, type LedgerState, ledgerState } from './ledger.ts';
import { createSignals, signalStates } from './signals/signal-types.ts';
import { boundText } from './step/bounded.ts';
import { type DriftEvent, type ReadEvent, readEvent } from './step/drift-event.ts';
import { askJudge, clipEvent, type HeardVerdict, keptEvent, problemOf } from './step/judge.ts';
import { count, type DriftEvidence, type DriftKind, type Signal, type SignalFinding, text } from './step/signal.ts';
import { StepTracker, type StepTrackerState, stepTrackerState } from './step/step-tracker.ts';

/** What a detector thinks after an event. */
export type DriftAssessment = {
  /** The number of the event, from 0. */
  readonly index: number;
  readonly status: 'healthy' | 'suspect' | 'drifting';
  /** The ways in which some agent is suspected to drift or drifts, strongest first. */
  readonly kinds: readonly DriftKind[];
  /** For each way the evidence against the worst agent, 1 at the alarm; absent for nothing at all. */
  readonly scores: Readonly<Partial<Record<DriftKind, number>>>;
  /** The strongest of them. */
  readonly score: number;
  /** How much the calls so far repeat earlier ones of their agent, on average, 0 to 1: ranks runs of any length, alarm or not. */
  readonly repetitiveness: number;
  /** If this event is the agent's last call over again, word for word: the event of that call. */
  readonly repeats?: number;
  /** Who drifts most. */
  readonly agent: string | undefined;
  /** The event with which that began. */
  readonly onset: number | undefined;
  /** When that was, if events say when they are: what was saved later may be spoiled. */
  readonly sinceMs?: number;
  /** What that rests on, oldest first. */
  readonly evidence: readonly DriftEvidence[];
  /** The names of the signals that speak in it. */
  readonly signals: readonly string[];
  /** All of that in a few sentences; empty for a healthy agent. */
  readonly summary: string;
  /** Why the judge could not be heard, if it was asked and failed. */
  readonly judgeProblem: string | undefined;
};

/** Everything a detector remembers, as plain data to be saved with the agent's state. */
export type DriftSnapshot = {
  readonly version: 1;
  readonly count: number;
  readonly tracker: StepTrackerState;
  readonly signals: Readonly<Record<string, unknown>>;
  readonly ledger: LedgerState;
  readonly goal: string | undefined;
  readonly window: readonly DriftEvent[];
  readonly nextJudgeAt: number;
  readonly times?: readonly Time[] | undefined;
};

/** The number of an event, and when it was. */
type Time = readonly [index: number, atMs: number];

const PARTS: Readonly<Record<Exclude<keyof DriftSnapshot, 'version'>, z.ZodType>> = {
  count,
  tracker: stepTrackerState,
  signals: signalStates,
  ledger: ledgerState,
  goal: text.optional(),
  window: z.array(keptEvent),
  nextJudgeAt: count,
  times: z.array(z.tuple([count, z.number()])).optional(),
};

/** Evidence is capped at this many times the alarm, so that a recovered agent is believed again soon. */
const CAP_ALARMS = 3;
/** Evidence from which on an agent is suspected, as a part of the alarm. */
const SUSPECT_SCORE = 0.5;
const MAX_GOAL_CHARS = 4000;
/** The fewest events between two questions to the judge, and how many of the last ones it sees. */
const JUDGE_INTERVAL_EVENTS = 10;
const JUDGE_WINDOW_EVENTS = 20;
/** Drifts that began longer ago than so many events are dated by the oldest of these. */
const MAX_TIMES = 500;

/**
 * Watches a stream of events for signs that an agent gets nowhere or leaves its goal. The work per event and the memory do not
 * grow with the length of the stream. It holds no clock and makes no calls, except to a judge.
 */
export class DriftDetector {
  readonly #options: ReadDriftOptions;
  #count = 0;
  #nextJudgeAt = 0;
  #memory: ReturnType<typeof remember>;

  constructor(options: DriftOptions = {}) {
    this.#options = readDriftOptions(options);
    this.#memory = remember(this.#options);
  }

  /** Takes in the next event and says what is to be thought of the run now. What cannot be read as an event counts as an empty one. */
  observe(event: DriftEvent): DriftAssessment {
    const read = readEvent(event, this.#count++);
    const reading = this.#memory.tracker.observe(read);
    const input = { event: read, reading, options: this.#options };
    const isPolling = reading !== undefined && this.#options.pollingTools.includes(reading.step.name);
    for (const signal of this.#memory.signals) {
      if (isPolling && (signal.kind === 'loop' || signal.kind === 'stall')) continue;
      const found = signal.observe(input);
      if (found !== undefined) this.#memory.ledger.add(evidenceOf(signal, found));
    }
    this.#keep(event, read);
    const assessment = this.#assess(read.index);
    return reading?.repeats === undefined ? assessment : { ...assessment, repeats: reading.repeats };
  }

  /** Like `observe`, and asks the judge if there is one and the evidence is in doubt. A judge that fails is reported, not thrown. */
  async assess(event: DriftEvent): Promise<DriftAssessment> {
    const assessment = this.observe(event);
    const { judge, judgeTimeoutMs } = this.#options;
    if (judge === undefined || assessment.status !== 'suspect' || assessment.index < this.#nextJudgeAt)
      return assessment;
    this.#nextJudgeAt = assessment.index + JUDGE_INTERVAL_EVENTS;
    const ledger = this.#memory.ledger;
    try {
      // A copy: what the judge does to it must not change what is remembered.
      const question = structuredClone({
        goal: this.#memory.goal,
        window: this.#memory.window,
        evidence: assessment.evidence,
      });
      const verdict = await askJudge(judge, question, judgeTimeoutMs);
      // What was asked about may have been forgotten meanwhile, by a reset or a restore.
      return this.#memory.ledger === ledger ? this.#hear(assessment, verdict) : assessment;
    } catch (error) {
      return { ...assessment, judgeProblem: problemOf(error) };
    }
  }

  /** Forgets everything, as after a restore with a clean context; events are counted on, also those until the judge may be asked again. */
  reset(): void {
    this.#memory = remember(this.#options);
  }

  /** All it remembers; with the same options and the same further events, a detector restored from it says the same. */
  snapshot(): DriftSnapshot {
    return structuredClone({
      version: 1,
      count: this.#count,
      tracker: this.#memory.tracker.snapshot(),
      signals: Object.fromEntries(this.#memory.signals.map((signal) => [signal.name, signal.snapshot()])),
      ledger: this.#memory.ledger.snapshot(),
      goal: this.#memory.goal,
      window: this.#memory.window,
      nextJudgeAt: this.#nextJudgeAt,
      ...(this.#memory.times.length > 0 && { times: this.#memory.times.slice(-MAX_TIMES) }),
    });
  }

  /** Goes on from what was remembered; what is no snapshot is an `InvalidInputError`, and changes nothing. */
  restore(snapshot: DriftSnapshot): void {
    const copy = readDriftSnapshot(snapshot);
    this.#memory = remember(this.#options, copy);
    this.#count = copy.count;
    this.#nextJudgeAt = copy.nextJudgeAt;
  }

  /** What the judge will see is kept only if there is a judge. */
  #keep(event: DriftEvent, read: ReadEvent): void {
    if (read.at !== undefined) this.#memory.times.push([read.index, read.at]);
    if (this.#memory.times.length > 2 * MAX_TIMES) this.#memory.times = this.#memory.times.slice(-MAX_TIMES);
    if (this.#options.judge === undefined) return;
    if (read.kind === 'goal') this.#memory.goal = boundText(read.text, MAX_GOAL_CHARS);
    this.#memory.window.push(clipEvent(event));
    if (this.#memory.window.length > JUDGE_WINDOW_EVENTS) this.#memory.window.shift();
  }

  #hear(assessment: DriftAssessment, verdict: HeardVerdict | undefined): DriftAssessment {
    if (verdict === undefined) {
      return { ...assessment, judgeProblem: 'The judge did not answer with a number "unproductive" from 0 to 1.' };
    }
    const { kinds, agent = '', index } = assessment;
    this.#memory.ledger.add({ signal: 'judge', kind: kinds[0] ?? 'stall', agent, steps: [index], ...verdict });
    return { ...assessment, ...this.#assess(index) };
  }

  /** Weighs the accounts: the worst one decides. */
  #assess(index: number): DriftAssessment {
    const { alarmNats } = this.#options;
    const scores: Partial<Record<DriftKind, number>> = {};
    let worst: Account | undefined;
    for (const account of this.#memory.ledger.accounts()) {
      scores[account.kind] = Math.max(scores[account.kind] ?? 0, account.nats / alarmNats);
      if (worst === undefined || account.nats > worst.nats) worst = account;
    }
    const score = (worst?.nats ?? 0) / alarmNats;
    const { repetitiveness } = this.#memory.tracker;
    if (worst === undefined || score < SUSPECT_SCORE)
      return { index, status: 'healthy', kinds: [], scores, score, repetitiveness, ...NOTHING_HELD };
    const kinds = (Object.entries(scores) as [DriftKind, number][])
      .filter(([, nats]) => nats >= SUSPECT_SCORE)
      .sort(([, a], [, b]) => b - a)
      .map(([kind]) => kind);
    const status = score >= 1 ? 'drifting' : 'suspect';
    const found = this.#memory.ledger.caseAgainst(worst);
    const since = this.#since(found.onset);
    return { index, status, kinds, scores, score, repetitiveness, ...found, ...since, judgeProblem: undefined };
  }

  #since(onset: number | undefined): { readonly sinceMs?: number } {
    const time = onset === undefined ? undefined : this.#memory.times.find(([index]) => index >= onset);
    return time === undefined ? {} : { sinceMs: time[1] };
  }
}

/** What is remembered: what was saved, or nothing but the goal that is given. */
function remember(options: ReadDriftOptions, saved: Partial<DriftSnapshot> = { goal: options.goal }) {
  const { goal, window = [], times = [] } = saved;
  return {
    tracker: new StepTracker(saved.tracker),
    signals: createSignals(options, saved.signals),
    ledger: new Ledger(CAP_ALARMS * options.alarmNats, saved.ledger),
    goal: goal === undefined ? undefined : boundText(goal, MAX_GOAL_CHARS),
    window: window.slice(-JUDGE_WINDOW_EVENTS),
    times: [...times],
  };
}

/** Field by field: a spread, made for nearly every event, took a tenth of all the time. */
function evidenceOf({ name, kind }: Signal, { agent, nats, steps, reason }: SignalFinding): DriftEvidence {
  return { signal: name, kind, agent, nats, steps, reason };
}

const NOTHING_HELD = Object.freeze({
  agent: undefined,
  onset: undefined,
  evidence: Object.freeze([]),
  signals: Object.freeze([]),
  summary: '',
  judgeProblem: undefined,
});

/** A copy of a snapshot that was saved; anything else, whatever its shape, is an `InvalidInputError` that names the damaged part. */
function readDriftSnapshot(snapshot: unknown): DriftSnapshot {
  let copy: unknown;
  try {
    copy = structuredClone(snapshot);
  } catch (cause) {
    throw invalid('is not plain data', cause);
  }
  if (!isRecord(copy)) throw invalid('is not an object');
  if (copy.version !== 1) throw invalid(`is of version ${String(JSON.stringify(copy.version))}, and not of version 1`);
  for (const [part, schema] of Object.entries(PARTS))
    if (!schema.safeParse(copy[part]).success) throw invalid(`is damaged in "${part}"`);
  return copy as DriftSnapshot;
}

function invalid(problem: string, cause?: unknown): InvalidInputError {
  return new InvalidInputError(
    `A drift snapshot of version 1 was expected, but what was given ${problem}. Start with a new detector.`,
    { cause },
  );
}
