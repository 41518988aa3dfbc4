/** What a person said to a request. */
export type FleetAnswer = {
  readonly answer: string;
  /** Who said so; `timeout` if nobody did in time. */
  readonly by: string;
  readonly atMs: number;
  /** What belongs to the answer: the edited plan, or what to do better. */
  readonly value?: unknown;
};

/** What a person is asked: to review a plan, to allow an operation, or to speak for an agent. Plain data, and the same in every run. */
export type FleetQuestion = {
  /** The same however often the run is resumed. */
  readonly id: string;
  readonly kind: 'plan_review' | 'operation' | 'reply';
  /** Who wants to know. */
  readonly agent: string;
  readonly message: string;
  /** What can be answered; empty: any text. */
  readonly options: readonly string[];
  /** Of an operation: what it is, and what it would be done with. */
  readonly operation?: string;
  readonly input?: unknown;
  /** Of a review: the plan, and whether the one before it led nowhere. */
  readonly plan?: string;
  readonly isStalled?: boolean;
};

/** A question from the moment it is asked. It lives in the checkpoint until it is answered. */
export type FleetRequest = FleetQuestion & {
  readonly askedAtMs: number;
  readonly deadlineMs?: number;
  readonly onTimeout: 'wait' | 'reject';
};

/** The one answer that means no. It can always be given, except where words are asked for. */
export const REJECT = 'reject';
export const APPROVE = 'approve';

/** A run stops here until someone answers. */
export class WaitingForAnswer extends Error {
  readonly request: FleetRequest;

  constructor(request: FleetRequest) {
    super(`Waiting for an answer to "${request.id}": ${request.message}`);
    this.name = 'WaitingForAnswer';
    this.request = request;
  }
}
