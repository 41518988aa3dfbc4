import { findOwn, REJECT, type RequestAnswers, type RequestForm } from '../../run/request-answers.ts';
import type { ApprovalAction } from '../definition/workflow.ts';
import type { RunRecord } from './run-record.ts';
import {
  type ApprovalAnswer,
  type ApprovalRequest,
  failed,
  OPEN,
  type Outcome,
  parseRunState,
  type RunState,
} from './run-state.ts';
import type { RunParts } from './workflow-run.ts';

/** Where answers to what a run asks are left and found, once each. */
export type Answers = RequestAnswers<RunState, ApprovalRequest>;

export const APPROVALS: RequestForm<RunState, ApprovalRequest> = {
  parse: parseRunState,
  requestsOf: ({ requests }) => requests,
  answerOf: ({ requests }, id) => findOwn(requests, id)?.answer,
  withAnswer: (state, request, answer) => ({
    ...state,
    requests: { ...state.requests, [request.id]: { ...request, answer } },
  }),
};

/** What a person is asked, and for which step. */
type Question = Pick<ApprovalAction, 'options' | 'timeoutMs' | 'onTimeout'> & {
  readonly id: string;
  readonly path: string;
  readonly message: string;
};

/** How often an answer, or the time, is looked for while other steps go on. */
export const POLL_MS = 500;

/**
 * Asks a person, once, and waits as long as anything else goes on: `done` with the answer, `failed` if it is no, and `open` if there is
 * none and nothing else is left to do.
 */
export async function askPerson(parts: RunParts, question: Question): Promise<Outcome> {
  const { session, record, answers, activity, ports } = parts;
  const place = { sessionId: session.id, branch: session.branch };
  const request =
    record.request(question.id) ?? (await activity.during(() => record.open(toRequest(question, ports.now()))));
  const look = async () =>
    (await answers.find(place, record.state, request.id)) ?? (await answers.timeOut(place, request));
  for (;;) {
    const answer = await activity.during(look);
    if (answer !== undefined) return take(record, request, answer);
    if (await activity.rest(POLL_MS)) return OPEN;
  }
}

function toRequest({ timeoutMs, ...question }: Question, askedAtMs: number): ApprovalRequest {
  return { ...question, askedAtMs, ...(timeoutMs !== undefined && { deadlineMs: askedAtMs + timeoutMs }) };
}

function take(record: RunRecord, request: ApprovalRequest, answer: ApprovalAnswer): Outcome {
  if (request.answer === undefined) record.answered(request, answer);
  const output = { approved: answer.answer !== REJECT, ...answer };
  if (output.approved) return { status: 'done', output };
  return { ...failed('ApprovalRejected', `"${request.path}" was rejected by ${answer.by}.`), output, isFinal: true };
}
