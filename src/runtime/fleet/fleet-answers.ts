import { InvalidInputError } from '../../core/errors.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { type GivenAnswer, RequestAnswers, type RequestForm } from '../run/request-answers.ts';
import type { FleetRequest } from './fleet-request.ts';
import { type FleetState, parseFleetState } from './fleet-state.ts';

/** Which answers to a plan need words besides, and for what. */
const NEEDS_TEXT: Readonly<Record<string, string>> = {
  edit: 'the plan as it should be',
  revise: 'what to do better',
};

const FORM: RequestForm<FleetState, FleetRequest> = {
  parse: parseFleetState,
  requestsOf: ({ fleet }) => fleet.requests,
  answersOf: ({ fleet }) => fleet.answers,
  withAnswer: (state, { id }, answer) => {
    const { [id]: _, ...requests } = state.fleet.requests;
    return { ...state, fleet: { ...state.fleet, requests, answers: { ...state.fleet.answers, [id]: answer } } };
  },
  check: checkText,
};

/** Where answers to what a fleet asks are left and found, once each. */
export class FleetAnswers extends RequestAnswers<FleetState, FleetRequest> {
  constructor(manager: CheckpointManager) {
    super(manager, FORM);
  }
}

function checkText({ id, kind }: FleetRequest, { answer, value }: GivenAnswer): void {
  const needed = kind === 'plan_review' ? NEEDS_TEXT[answer] : undefined;
  if (needed === undefined || (typeof value === 'string' && value.trim() !== '')) return;
  throw new InvalidInputError(`The answer "${answer}" to "${id}" needs a value: ${needed}, as a text.`, {
    details: { requestId: id },
  });
}
