import { ConflictError, hasErrorCode, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { parseSessionId } from '../../core/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { partsOf } from '../../manager/manager-parts.ts';
import { formatSuggestion, suggest } from '../config/suggestion.ts';
import { type FleetAnswer, type FleetRequest, REJECT } from './fleet-request.ts';
import { type FleetState, parseFleetState } from './fleet-state.ts';

/** Which fleet is meant: a session, and its branch if not the current one. */
export type FleetPlace = { readonly sessionId: string; readonly branch?: string | undefined };

/** An answer on its way. */
export type GivenAnswer = FleetPlace & {
  readonly requestId: string;
  readonly answer: string;
  /** Who says so. */
  readonly by: string;
  /** The edited plan, or what to do better. */
  readonly value?: unknown;
};

/**
 * Where answers are left and found, as for workflows: an answer is a branch of the session, named after the request. A storage makes a
 * branch once, so of any number of people in any number of processes one is heard, and a run that is going on is not disturbed.
 */
export class FleetAnswers {
  readonly #manager: CheckpointManager;

  constructor(manager: CheckpointManager) {
    this.#manager = manager;
  }

  /** What people are asked now. */
  async pending(place: FleetPlace): Promise<FleetRequest[]> {
    const { sessionId, branch, state } = await this.#open(place);
    const open = Object.values(state.fleet.requests);
    const found = await Promise.all(open.map(({ id }) => this.read({ sessionId, branch }, id)));
    return open.filter((_, at) => found[at] === undefined);
  }

  /** The answer that was left for a request, if there is one. */
  async read(place: Required<FleetPlace>, requestId: string): Promise<FleetAnswer | undefined> {
    const { repository } = partsOf(this.#manager).context;
    const sessionId = parseSessionId(place.sessionId);
    const headId = await repository.readRef(sessionId, 'branch', answerBranch(place.branch ?? 'main', requestId));
    if (headId === undefined) return undefined;
    return parseFleetState(await this.#manager.load(headId)).fleet.answers[requestId];
  }

  /** Leaves an answer; the second one is a ConflictError that says who was faster. */
  async give({ requestId, answer, by, value, ...place }: GivenAnswer): Promise<FleetAnswer> {
    const { sessionId, branch, headId, state } = await this.#open(place);
    const known = state.fleet.answers[requestId];
    if (known !== undefined) throw alreadyAnswered(requestId, known);
    const request = findRequest(state, sessionId, requestId);
    checkAnswer(request, { answer, value });
    const { ports } = partsOf(this.#manager).context;
    const given: FleetAnswer = { answer, by, atMs: ports.now(), ...(value !== undefined && { value }) };
    try {
      await this.#manager.fork(headId, {
        branch: answerBranch(branch, requestId),
        author: by,
        reason: `answer: ${answer.slice(0, 200)}`,
        edit: () => withAnswer(state, requestId, given),
      });
      return given;
    } catch (error) {
      const first = hasErrorCode(error, 'CONFLICT') ? await this.read({ sessionId, branch }, requestId) : undefined;
      throw first === undefined ? error : alreadyAnswered(requestId, first);
    }
  }

  async #open(place: FleetPlace) {
    const { repository } = partsOf(this.#manager).context;
    const sessionId = parseSessionId(place.sessionId);
    const branch = place.branch ?? (await repository.readRef(sessionId, 'current', 'branch')) ?? 'main';
    const headId = await repository.readRef(sessionId, 'branch', branch);
    if (headId === undefined)
      throw new NotFoundError(`Session "${sessionId}" has no branch "${branch}".`, { details: { sessionId, branch } });
    return { sessionId, branch, headId, state: parseFleetState(await this.#manager.load(headId)) };
  }
}

/** The branch that holds the answer to a request. */
function answerBranch(branch: string, requestId: string): string {
  return `answer/${branch}/${requestId}`;
}

function withAnswer(state: FleetState, requestId: string, answer: FleetAnswer): FleetState {
  const { [requestId]: _, ...requests } = state.fleet.requests;
  return { ...state, fleet: { ...state.fleet, requests, answers: { ...state.fleet.answers, [requestId]: answer } } };
}

function findRequest({ fleet }: FleetState, sessionId: string, requestId: string): FleetRequest {
  const request = Object.hasOwn(fleet.requests, requestId) ? fleet.requests[requestId] : undefined;
  if (request !== undefined) return request;
  const known = Object.keys(fleet.requests);
  const asked = known.length === 0 ? 'It asks nothing.' : `It asks: ${known.join(', ')}.`;
  throw new NotFoundError(
    `Session "${sessionId}" asks nothing called "${requestId}".${formatSuggestion(suggest(requestId, known))} ${asked}`,
    { details: { sessionId, requestId, known } },
  );
}

/** Which answers need words besides, and for what. */
const NEEDS_TEXT: Readonly<Record<string, string>> = {
  edit: 'the plan as it should be',
  revise: 'what to do better',
};

function checkAnswer(
  { id, options, kind }: FleetRequest,
  { answer, value }: Pick<GivenAnswer, 'answer' | 'value'>,
): void {
  if (options.length > 0 && answer !== REJECT && !options.includes(answer)) {
    throw new InvalidInputError(
      `Request "${id}" cannot be answered with "${answer}".${formatSuggestion(suggest(answer, options))} It takes: ${options.join(', ')}.`,
      { details: { requestId: id, options } },
    );
  }
  const needed = kind === 'plan_review' ? NEEDS_TEXT[answer] : undefined;
  if (needed === undefined || (typeof value === 'string' && value.trim() !== '')) return;
  throw new InvalidInputError(`The answer "${answer}" to "${id}" needs a value: ${needed}, as a text.`, {
    details: { requestId: id },
  });
}

function alreadyAnswered(requestId: string, { answer, by, atMs }: FleetAnswer): ConflictError {
  return new ConflictError(
    `Request "${requestId}" was already answered by ${by}: "${answer}", at ${new Date(atMs).toISOString()}.`,
    { details: { requestId, answer, by, atMs } },
  );
}
