import { hasErrorCode, InvalidInputError } from '../../../core/errors.ts';
import { digestText } from '../../../core/tree/chunk.ts';
import type { DriftEvent } from '../../drift/index.ts';
import type { WorkCall } from '../../run/work.ts';
import type { AgentMind } from '../state/agent-state.ts';
import { errorText } from '../state/error-text.ts';
import type { TurnParts } from './turn-run.ts';

/** The turn that is reported, and to whom. */
type ReportParts = Pick<TurnParts, 'live' | 'work' | 'codec' | 'progress'> & {
  readonly look: () => AgentMind;
  /** Whether the loop ended the turn, or the agent its part: what fails then did not fail by itself. */
  readonly isOver: () => boolean;
  readonly onDrift: () => void;
};

/** A call that failed, as the watch will see it. */
type FailedCall = { readonly event: DriftEvent; readonly error: unknown; readonly digest: string };

/** How often a call may be tried before that is shown as more than one: hardly any policy retries more often. */
const MAX_TRIES = 10;

/** Reports a turn to the drift watch: its calls, what came of them, and what it found out. */
export class TurnReport {
  readonly #parts: ReportParts;
  readonly #found = new Set<string>();
  #foundSum = 0n;
  /** A call that failed, until it is known whether it is made again, the agent goes on after it, or the loop tries again. */
  #failure: FailedCall | undefined;
  /** How often calls failed that have not succeeded since. */
  readonly #tries = new Map<string, number>();
  isDrifting = false;

  constructor(parts: ReportParts) {
    this.#parts = parts;
  }

  /**
   * What the turn has found out so far: equal for equal findings, in whatever order. Its agent may hold that without its state
   * showing it. The same again is nothing new: whoever asks and hears the same for ever stays where it is.
   */
  get findings(): string {
    return this.#foundSum.toString(16);
  }

  find({ name, input }: WorkCall, outcome: unknown): void {
    const digest = this.digestOf({ name, input, outcome });
    if (this.#found.has(digest)) return;
    this.#found.add(digest);
    this.#foundSum ^= BigInt(`0x${digest}`);
  }

  /** What has no digest is like nothing else. */
  digestOf(finding: object): string {
    try {
      return this.#parts.codec.encode(finding).root.digest;
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error;
      return digestText(`unlike anything: ${this.#found.size}`);
    }
  }

  /**
   * Shows a call and what came of it. What an earlier attempt did is no news to the watch, and a call that failed and is made again is
   * one call, until it was tried too often.
   */
  async show<Result>(call: WorkCall, seen: unknown, perform: () => Promise<Result>): Promise<Result> {
    const { work, progress } = this.#parts;
    const digest = this.digestOf({ name: call.name, seen });
    const tries = this.#tries.get(digest) ?? 0;
    const isRetry = tries > 0 && tries < MAX_TRIES;
    const isOver = work.has(call);
    const end = progress.beginCall();
    const about = { name: call.name, job: progress.jobOf(call.label !== undefined) };
    const begun = { ...about, kind: 'call', input: seen };
    if (!isOver && !isRetry && !work.wasCalled(call)) this.observe(begun);
    try {
      const output = await perform();
      if (this.#forgetFailure(digest) && isRetry) this.observe(begun);
      if (!isOver) this.observe({ ...about, kind: 'result', output });
      return output;
    } catch (error) {
      this.#noteFailure({ ...about, kind: 'result', text: errorText(error).message, isError: true }, { error, digest });
      throw error;
    } finally {
      end();
    }
  }

  /** A call succeeded; returns whether the watch has seen that it failed before. */
  #forgetFailure(digest: string): boolean {
    this.#tries.delete(digest);
    if (this.#failure?.digest !== digest) return true;
    this.#failure = undefined;
    return false;
  }

  /** What the loop ended itself, or the agent did not wait for, did not fail, and what is known to fail and fails again is no news. */
  #noteFailure(event: DriftEvent, { error, digest }: Pick<FailedCall, 'error' | 'digest'>): void {
    if (this.#parts.isOver()) return;
    const tries = (this.#tries.get(digest) ?? 0) + 1;
    const isUnseen = this.#failure?.digest === digest;
    this.#tries.set(digest, tries);
    if (!isUnseen) this.showFailure();
    if (isUnseen || tries === 1 || tries > MAX_TRIES) this.#failure = { event, error, digest };
  }

  /** What is no event is not shown. */
  observe(event: DriftEvent): void {
    if (typeof event !== 'object' || event === null) return;
    this.showFailure();
    this.#observe(event);
  }

  showFailure(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) this.#observe(failure.event);
  }

  #observe(event: DriftEvent): void {
    const { live, progress, onDrift } = this.#parts;
    const seen = { job: progress.jobOf(true), ...event };
    const reading = live.watch.observe({ ...seen, ...(seen.kind === 'call' && this.#stateDigest(seen.job)) });
    if (reading.status !== 'drifting' || this.isDrifting) return;
    this.isDrifting = true;
    onDrift();
  }

  #stateDigest(job: string): { readonly stateDigest?: string } {
    try {
      return { stateDigest: this.#parts.progress.stateDigest(this.#parts.look(), this.findings, job) };
    } catch (error) {
      // What cannot be saved may be gone when the turn ends.
      if (hasErrorCode(error, 'INVALID_INPUT')) return {};
      throw error;
    }
  }

  /** Shows how the turn ended. A failure after which the loop tries again, or that it brought about itself, is none. */
  fail(error: unknown, { isFinal, isAborted }: { readonly isFinal: boolean; readonly isAborted: boolean }): void {
    if (isAborted || (!isFinal && this.#failure?.error === error)) this.#failure = undefined;
    else this.showFailure();
    if (isFinal && !isAborted) this.#observe({ kind: 'error', text: errorText(error).message });
  }
}
