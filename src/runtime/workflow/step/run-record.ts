import { withoutUndefined } from '../../../core/defined.ts';
import { hasErrorCode } from '../../../core/errors.ts';
import { freezeState } from '../../../core/freeze.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import type { SaveOptions } from '../../../manager/engine/save-options.ts';
import type { Session } from '../../../manager/session/session.ts';
import { findOwn } from '../../run/request-answers.ts';
import {
  type ApprovalAnswer,
  type ApprovalRequest,
  parseRunState,
  type RunState,
  type RunStatus,
  type StepEnd,
  type StepFailure,
  type Tries,
} from './run-state.ts';

/** Said of every checkpoint of a run. */
export type RunLabels = Pick<SaveOptions, 'userId' | 'agentId' | 'metadata'>;

/** The state of a run in the making. Adding to it costs the same however much there is; saving costs what is new. */
export class RunRecord {
  readonly #session: Session;
  readonly #labels: RunLabels;
  readonly #ends: StepEnd[];
  readonly #byPath: Map<string, StepEnd>;
  readonly #checkpoints = new Map<string, CheckpointId>();
  readonly #statusBefore: RunStatus;
  #state: RunState;
  #isChanged = false;

  constructor(session: Session, state: RunState, { userId = session.head?.userId, agentId, metadata }: RunLabels = {}) {
    this.#session = session;
    this.#labels = withoutUndefined({ userId, agentId, metadata });
    this.#ends = [...state.ends];
    this.#byPath = new Map(state.ends.map((end) => [end.path, end]));
    this.#statusBefore = state.status;
    const tries = state.status === 'failed' ? nextRound(state.tries) : state.tries;
    this.#state = { ...state, status: 'running', tries, failures: [] };
  }

  get state(): RunState {
    return this.#state;
  }

  /** The checkpoints that were taken after steps here, by path. */
  get checkpoints(): ReadonlyMap<string, CheckpointId> {
    return this.#checkpoints;
  }

  /** How a step ended, if it has. */
  find(path: string): StepEnd | undefined {
    return this.#byPath.get(path);
  }

  /** How far retries have come at a step that has not ended. */
  tries(path: string): Tries | undefined {
    return findOwn(this.#state.tries, path);
  }

  tried(path: string, tries: Tries): void {
    this.#change({ tries: { ...this.#state.tries, [path]: tries } });
  }

  add(end: StepEnd): StepEnd {
    freezeState(end); // later steps get it as their input
    this.#isChanged = true;
    this.#ends.push(end);
    this.#byPath.set(end.path, end);
    return end;
  }

  fail(failure: StepFailure): void {
    this.#change({ failures: [...this.#state.failures, failure] });
  }

  request(id: string): ApprovalRequest | undefined {
    return findOwn(this.#state.requests, id);
  }

  /** Asks a person; durable before this resolves, because the answer may come by way of another process. */
  async open(request: ApprovalRequest): Promise<ApprovalRequest> {
    this.#change({ requests: { ...this.#state.requests, [request.id]: request } });
    await this.save('approval_requested');
    return request;
  }

  answered(request: ApprovalRequest, answer: ApprovalAnswer): void {
    this.#change({ requests: { ...this.#state.requests, [request.id]: { ...request, answer } } });
  }

  timer(path: string): number | undefined {
    return findOwn(this.#state.timers, path);
  }

  /** Starts a timer; durable before this resolves, so that it goes on from its deadline. */
  async setTimer(path: string, deadlineMs: number): Promise<number> {
    this.#change({ timers: { ...this.#state.timers, [path]: deadlineMs } });
    await this.save('timer_started');
    return deadlineMs;
  }

  /**
   * Saves after a step. That its result is durable does not hang on this, so a storage that fails now does not stop the run: the manager
   * tells of it as `save_failed`, and the next save brings what this one would have.
   */
  async checkpoint(path: string): Promise<void> {
    try {
      this.#checkpoints.set(path, await this.save('step_completed', { step: path }));
    } catch (error) {
      if (!hasErrorCode(error, 'STORAGE')) throw error;
    }
  }

  /** Saves how the run ended, or where it waits, unless nothing came of it. */
  async finish(status: RunStatus, output?: unknown): Promise<void> {
    const saved = parseRunState(this.#session.state, this.#session.id);
    // A definition that was accepted counts from now on.
    const isDefinedAsSaved = saved.fingerprint.digest === this.#state.fingerprint.digest;
    if (!this.#isChanged && status === this.#statusBefore && isDefinedAsSaved) {
      this.#state = { ...this.#state, status };
      return;
    }
    const timers = this.#unended(this.#state.timers);
    const tries = this.#unended(this.#state.tries);
    this.#change({ status, timers, tries, ...(output !== undefined && { output }) });
    await this.save(`workflow_${status}`);
  }

  /** What is not needed any more is left out at the end rather than step by step. */
  #unended<Value>(byPath: { readonly [path: string]: Value }): { readonly [path: string]: Value } {
    return Object.fromEntries(Object.entries(byPath).filter(([path]) => !this.#byPath.has(path)));
  }

  #change(part: Partial<RunState>): void {
    this.#isChanged = true;
    this.#state = { ...this.#state, ...part };
  }

  async save(trigger: string, about?: { readonly step: string }): Promise<CheckpointId> {
    const { workflow, fingerprint, status } = this.#state;
    this.#change({ ends: Object.freeze([...this.#ends]) });
    return this.#session.save(this.#state, {
      agentId: workflow,
      ...this.#labels,
      ...(about !== undefined && { metadata: { ...this.#labels.metadata, ...about } }),
      type: 'auto',
      trigger,
      status,
      agentType: 'workflow',
      fingerprint: { workflow, digest: fingerprint.digest },
    });
  }
}

/** A step that stopped a run may be tried as often as the first time; its attempts are counted on. */
function nextRound(tries: RunState['tries']): RunState['tries'] {
  return Object.fromEntries(
    Object.entries(tries).map(([path, tried]) => [path, { ...tried, turn: 0, isFinal: false }]),
  );
}
