import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { RequestAnswers, type RequestForm, type RequestPlace } from '../../run/request-answers.ts';
import { type ApprovalRequest, parseRunState, type RunState } from './run-state.ts';

const FORM: RequestForm<RunState, ApprovalRequest> = {
  parse: parseRunState,
  requestsOf: ({ requests }) => requests,
  answersOf: ({ requests }) => Object.fromEntries(Object.values(requests).map(({ id, answer }) => [id, answer])),
  withAnswer: (state, request, answer) => ({
    ...state,
    requests: { ...state.requests, [request.id]: { ...request, answer } },
  }),
};

/** Where answers to what a run asks are left and found, once each. */
export class Answers extends RequestAnswers<RunState, ApprovalRequest> {
  constructor(manager: CheckpointManager) {
    super(manager, FORM);
  }

  /** The state with the answers that were left meanwhile. */
  async collect(place: RequestPlace, state: RunState): Promise<RunState> {
    let collected = state;
    for (const request of Object.values(state.requests)) {
      const answer = request.answer ?? (await this.read(place, request.id));
      if (answer !== undefined) collected = FORM.withAnswer(collected, request, answer);
    }
    return collected;
  }
}
