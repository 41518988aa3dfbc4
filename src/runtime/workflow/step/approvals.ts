import type { ManagerPorts } from '../../../manager/engine/engine.ts';
import type { Session } from '../../../manager/session/session.ts';
import { REJECT } from '../../run/request-answers.ts';
import type { ApprovalAction } from '../definition/workflow.ts';
import type { Activity } from './activity.ts';
import type { Answers } from './answers.ts';
import { failed, OPEN, type Outcome } from './outcome.ts';
import type { RunRecord } from './run-record.ts';
import type { ApprovalAnswer, ApprovalRequest } from './run-state.ts';

type ApprovalParts = {
  readonly session: Session;
  readonly record: RunRecord;
  readonly answers: Answers;
  readonly activity: Activity;
  readonly ports: ManagerPorts;
};

/** What a person is asked, and for which step. */
export type Question = Pick<ApprovalAction, 'options' | 'timeoutMs' | 'onTimeout'> & {
  readonly id: string;
  readonly path: string;
  readonly message: string;
};

/** How often an answer is looked for while other steps go on. */
const POLL_MS = 500;

/** Asks people, once each, and waits for them as long as anything else goes on. */
export class Approvals {
  readonly #parts: ApprovalParts;

  constructor(parts: ApprovalParts) {
    this.#parts = parts;
  }

  /** Ends `done` with the answer, `failed` if it is no, and `open` if there is none and nothing else is left to do. */
  async ask(question: Question): Promise<Outcome> {
    const { record, activity } = this.#parts;
    const request = record.request(question.id) ?? (await activity.during(() => record.open(this.#request(question))));
    for (;;) {
      const answer = request.answer ?? (await activity.during(() => this.#look(request)));
      if (answer !== undefined) return this.#take(request, answer);
      if (await activity.rest(POLL_MS)) return OPEN;
    }
  }

  #request({ timeoutMs, ...question }: Question): ApprovalRequest {
    const askedAtMs = this.#parts.ports.now();
    return { ...question, askedAtMs, ...(timeoutMs !== undefined && { deadlineMs: askedAtMs + timeoutMs }) };
  }

  async #look(request: ApprovalRequest): Promise<ApprovalAnswer | undefined> {
    const { answers, session, ports } = this.#parts;
    const found = await answers.read({ sessionId: session.id, branch: session.branch }, request.id);
    const isLate = request.deadlineMs !== undefined && ports.now() >= request.deadlineMs;
    if (found !== undefined || !isLate || request.onTimeout === 'wait') return found;
    return this.#timeOut(request);
  }

  /** The policy answers as a person would, so that either it is heard or a person who was faster. */
  async #timeOut(request: ApprovalRequest): Promise<ApprovalAnswer> {
    const { answers, session } = this.#parts;
    const place = { sessionId: session.id, branch: session.branch };
    const accept = request.options.find((option) => option !== REJECT) ?? REJECT;
    const answer = request.onTimeout === 'reject' ? REJECT : accept;
    return answers.giveOrRead({ ...place, requestId: request.id, answer, by: 'timeout' });
  }

  #take(request: ApprovalRequest, answer: ApprovalAnswer): Outcome {
    if (request.answer === undefined) this.#parts.record.answered(request, answer);
    const output = { approved: answer.answer !== REJECT, ...answer };
    if (output.approved) return { status: 'done', output };
    return { ...failed('ApprovalRejected', `"${request.path}" was rejected by ${answer.by}.`), output, isFinal: true };
  }
}
