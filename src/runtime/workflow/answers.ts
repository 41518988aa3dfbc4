import { ConflictError, hasErrorCode, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { parseSessionId } from '../../core/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { partsOf } from '../../manager/manager-parts.ts';
import { formatSuggestion, suggest } from '../config/suggestion.ts';
import { type ApprovalAnswer, type ApprovalRequest, parseRunState, type RunState } from './run-state.ts';

/** The one answer that means no. It can always be given. */
export const REJECT = 'reject';

/** Which run is meant: a session, and its branch if not the current one. */
export type RunPlace = { readonly sessionId: string; readonly branch?: string | undefined };

/** An answer on its way. */
export type GivenAnswer = RunPlace & {
  readonly requestId: string;
  readonly answer: string;
  /** Who says so. */
  readonly by: string;
  readonly value?: unknown;
};

/**
 * Where answers are left and found. An answer is a branch of the run's session, named after the request, that begins with the state as the
 * answer changes it. A storage makes a branch once, so of any number of people in any number of processes one is heard; and the run,
 * which may be going on meanwhile, is not disturbed.
 */
export class Answers {
  readonly #manager: CheckpointManager;

  constructor(manager: CheckpointManager) {
    this.#manager = manager;
  }

  /** What a person is asked now. */
  async pending(place: RunPlace): Promise<ApprovalRequest[]> {
    const { branch, state } = await this.#open(place);
    const open = Object.values(state.requests).filter(({ answer }) => answer === undefined);
    const found = open.map(async (request) => ((await this.read({ ...place, branch }, request.id)) ? [] : [request]));
    return (await Promise.all(found)).flat();
  }

  /** The answer to a request, if there is one. */
  async read({ sessionId, branch = 'main' }: RunPlace, requestId: string): Promise<ApprovalAnswer | undefined> {
    const { repository } = partsOf(this.#manager).context;
    const headId = await repository.readRef(sessionId, 'branch', answerBranch(branch, requestId));
    if (headId === undefined) return undefined;
    return parseRunState(await this.#manager.load(headId), sessionId).requests[requestId]?.answer;
  }

  /** The state with the answers that were left meanwhile. */
  async collect(place: RunPlace, state: RunState): Promise<RunState> {
    let collected = state;
    for (const request of Object.values(state.requests)) {
      const answer = request.answer ?? (await this.read(place, request.id));
      if (answer !== undefined) collected = withAnswer(collected, request, answer);
    }
    return collected;
  }

  /** Leaves an answer; the second one is a ConflictError that says who was faster. */
  async give({ requestId, answer, by, value, ...place }: GivenAnswer): Promise<ApprovalAnswer> {
    const { sessionId, branch, headId, state } = await this.#open(place);
    const request = this.#find(state, sessionId, requestId);
    if (request.answer !== undefined) throw alreadyAnswered(request, request.answer);
    if (answer !== REJECT && !request.options.includes(answer)) throw unknownAnswer(request, answer);
    const { ports } = partsOf(this.#manager).context;
    const given: ApprovalAnswer = { answer, by, atMs: ports.now(), ...(value !== undefined && { value }) };
    try {
      await this.#manager.fork(headId, {
        branch: answerBranch(branch, requestId),
        author: by,
        reason: `answer: ${answer}`,
        edit: (copy) => withAnswer(parseRunState(copy, sessionId), request, given),
      });
      return given;
    } catch (error) {
      const first = hasErrorCode(error, 'CONFLICT') ? await this.read({ sessionId, branch }, requestId) : undefined;
      throw first === undefined ? error : alreadyAnswered(request, first);
    }
  }

  #find(state: RunState, sessionId: string, requestId: string): ApprovalRequest {
    const request = Object.hasOwn(state.requests, requestId) ? state.requests[requestId] : undefined;
    if (request !== undefined) return request;
    const ids = Object.keys(state.requests);
    const known = ids.length === 0 ? 'It asks nothing.' : `It asks: ${ids.join(', ')}.`;
    throw new NotFoundError(
      `Session "${sessionId}" asks nothing called "${requestId}".${formatSuggestion(suggest(requestId, ids))} ${known}`,
      { details: { sessionId, requestId, known: ids } },
    );
  }

  async #open({ sessionId, branch }: RunPlace) {
    const { repository } = partsOf(this.#manager).context;
    const id = parseSessionId(sessionId);
    const name = branch ?? (await repository.readRef(id, 'current', 'branch')) ?? 'main';
    const headId = await repository.readRef(id, 'branch', name);
    if (headId === undefined)
      throw new NotFoundError(`Session "${id}" has no branch "${name}".`, { details: { sessionId: id, branch: name } });
    return { sessionId: id, branch: name, headId, state: parseRunState(await this.#manager.load(headId), id) };
  }
}

/** The branch that holds the answer to a request of a run. */
function answerBranch(branch: string, requestId: string): string {
  return `answer/${branch}/${requestId}`;
}

function withAnswer(state: RunState, request: ApprovalRequest, answer: ApprovalAnswer): RunState {
  return { ...state, requests: { ...state.requests, [request.id]: { ...request, answer } } };
}

function alreadyAnswered({ id }: ApprovalRequest, { answer, by, atMs }: ApprovalAnswer): ConflictError {
  return new ConflictError(
    `Request "${id}" was already answered by ${by}: "${answer}", at ${new Date(atMs).toISOString()}.`,
    { details: { requestId: id, answer, by, atMs } },
  );
}

function unknownAnswer({ id, options }: ApprovalRequest, answer: string): InvalidInputError {
  return new InvalidInputError(
    `Request "${id}" cannot be answered with "${answer}".${formatSuggestion(suggest(answer, options))} It takes: ${options.join(', ')}.`,
    { details: { requestId: id, options } },
  );
}
