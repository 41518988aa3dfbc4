import { isDeepStrictEqual } from 'node:util';
import { ConflictError, hasErrorCode, InvalidInputError, NotFoundError } from '../../core/errors.ts';
import { anything, checkOptions, describeValue, filledString, type OptionChecks, string } from '../../core/options.ts';
import { name, parseSessionId } from '../../core/record/id.ts';
import { formatSuggestion, suggest } from '../../core/suggestion.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { answerBranch } from '../../manager/revision/ref-name.ts';

/** The one answer that means no. It can always be given, except where words are asked for. */
export const REJECT = 'reject';

/** Whose requests are meant: those of a session, and of its branch if not the current one. */
export type RequestPlace = { readonly sessionId: string; readonly branch?: string | undefined };

/** What a person said to a request. */
export type RequestAnswer = {
  readonly answer: string;
  /** Who said so; `timeout` if nobody did in time. */
  readonly by: string;
  readonly atMs: number;
  /** What belongs to the answer, such as a changed plan; refused where nobody would read it. */
  readonly value?: unknown;
};

/** An answer on its way. */
export type GivenAnswer = RequestPlace & Omit<RequestAnswer, 'atMs'> & { readonly requestId: string };

/** What is said to requests, by their ids: the answer, or also who gives it and what belongs to it. */
export type AnswersById = Readonly<
  Record<string, string | (Pick<GivenAnswer, 'answer' | 'value'> & { readonly by?: string })>
>;

const GIVEN: OptionChecks<GivenAnswer> = {
  sessionId: { required: name },
  branch: name,
  requestId: { required: filledString },
  answer: { required: string },
  by: { required: filledString },
  value: anything,
};

/** What every request has: a name, and what can be answered; no options: any text. */
export type AnyRequest = {
  readonly id: string;
  readonly options: readonly string[];
  readonly deadlineMs?: number;
  /** What counts as the answer from then on; default `wait`: nothing. */
  readonly onTimeout?: 'wait' | 'reject' | 'approve';
};

/** When a request answers itself; undefined: never. */
export function deadlineOf({ deadlineMs, onTimeout = 'wait' }: AnyRequest): number | undefined {
  return onTimeout === 'wait' ? undefined : deadlineMs;
}

/** Whether a request has answered itself by then: what anybody says later is not heard. */
function isOver(request: AnyRequest, atMs: number): boolean {
  return atMs >= (deadlineOf(request) ?? Number.POSITIVE_INFINITY);
}

/** What a request answers itself. */
function byTimeout({ options, onTimeout }: AnyRequest, atMs: number): RequestAnswer {
  const yes = options.find((option) => option !== REJECT) ?? REJECT;
  return { answer: onTimeout === 'reject' ? REJECT : yes, by: 'timeout', atMs };
}

/** How a state holds requests and answers. */
export interface RequestForm<State, Request extends AnyRequest> {
  /** Accepts the state of a session or throws: a session may be anybody's. */
  parse(state: unknown, sessionId: string): State;
  requestsOf(state: State): Readonly<Record<string, Request>>;
  answerOf(state: State, requestId: string): RequestAnswer | undefined;
  withAnswer(state: State, request: Request, answer: RequestAnswer): State;
  /** Which answers need a text as their value, and what it says. */
  needsOf?(request: Request): Readonly<Record<string, string>>;
  /** Throws if the answer lacks something, beyond being one of the options. */
  check?(request: Request, given: GivenAnswer): void;
}

type Opened<Request> = {
  readonly sessionId: string;
  readonly branch: string;
  readonly headId: string;
  readonly request: Request;
};

/**
 * Where answers are left and found. An answer is a branch of the session, named after the request, that begins with the state as the
 * answer changes it. A storage makes a branch once, so of any number of people in any number of processes one is heard; and the run,
 * which may be going on meanwhile, is not disturbed.
 */
export class RequestAnswers<State, Request extends AnyRequest> {
  readonly #manager: CheckpointManager;
  readonly form: RequestForm<State, Request>;

  constructor(manager: CheckpointManager, form: RequestForm<State, Request>) {
    this.#manager = manager;
    this.form = form;
  }

  /** What people are asked now. */
  async pending(place: RequestPlace): Promise<Request[]> {
    checkOptions(place, { sessionId: GIVEN.sessionId, branch: name }, 'pending()');
    const { sessionId, branch, state } = await this.#open(place);
    return this.unanswered({ sessionId, branch }, state);
  }

  /** Those requests of a state that a person can still answer. */
  async unanswered(place: RequestPlace, state: State): Promise<Request[]> {
    const requests = Object.values(this.form.requestsOf(state));
    const found = await Promise.all(requests.map(({ id }) => this.find(place, state, id)));
    const nowMs = this.#manager.engine.ports.now();
    return requests.filter((request, at) => found[at] === undefined && !isOver(request, nowMs));
  }

  /** What was answered so far: in the state, or beside it, where what came too late means what the request answers itself. */
  async find(place: RequestPlace, state: State, requestId: string): Promise<RequestAnswer | undefined> {
    const known = this.form.answerOf(state, requestId);
    if (known !== undefined) return known;
    const answer = await this.read(place, requestId);
    const request = findOwn(this.form.requestsOf(state), requestId);
    if (answer === undefined || request === undefined || !isOver(request, answer.atMs)) return answer;
    return byTimeout(request, answer.atMs);
  }

  /** The state with what was answered beside it; the same if that is nothing. */
  async collect(place: RequestPlace, state: State): Promise<State> {
    let collected = state;
    for (const request of Object.values(this.form.requestsOf(state))) {
      const isKnown = this.form.answerOf(state, request.id) !== undefined;
      const answer = isKnown ? undefined : await this.find(place, state, request.id);
      if (answer !== undefined) collected = this.form.withAnswer(collected, request, answer);
    }
    return collected;
  }

  /** The answer that was left for a request, if there is one. */
  async read(place: RequestPlace, requestId: string): Promise<RequestAnswer | undefined> {
    const { repository } = this.#manager.engine;
    const { sessionId, branch } = await this.#locate(place);
    const headId = await repository.readRef(sessionId, 'branch', answerBranch(branch, requestId));
    if (headId === undefined) return undefined;
    return this.form.answerOf(this.form.parse(await this.#manager.load(headId), sessionId), requestId);
  }

  /** Leaves an answer; the second one, and one that comes too late, is a ConflictError that says what counts. */
  async give(given: GivenAnswer): Promise<RequestAnswer> {
    const opened = await this.#check(given);
    const { answer, by, value } = given;
    const { request } = opened;
    const atMs = this.#manager.engine.ports.now();
    if (!isOver(request, atMs)) return this.#leave(opened, { answer, by, atMs, ...(value !== undefined && { value }) });
    throw tooLate(request, await this.#leave(opened, byTimeout(request, atMs)));
  }

  /** What is asked under an id; refuses an answer that it does not take, or that somebody gave, before anything is written. */
  async #check(given: GivenAnswer): Promise<Opened<Request>> {
    checkOptions(given, GIVEN, 'answer()');
    const { requestId } = given;
    const { state, ...place } = await this.#open(given);
    const requests = this.form.requestsOf(state);
    const request = findOwn(requests, requestId);
    const known =
      this.form.answerOf(state, requestId) ?? (request === undefined ? await this.read(place, requestId) : undefined);
    if (known !== undefined) throw alreadyAnswered(requestId, known);
    if (request === undefined) throw unknownRequest(place.sessionId, requestId, Object.keys(requests));
    checkOption(request, given.answer);
    this.form.check?.(request, given);
    return { ...place, request };
  }

  async #leave({ sessionId, branch, headId, request }: Opened<Request>, said: RequestAnswer): Promise<RequestAnswer> {
    const requestId = request.id;
    const forking = this.#manager.fork(headId, {
      branch: answerBranch(branch, requestId),
      author: said.by,
      reason: `answer: ${said.answer.slice(0, 200)}`,
      edit: (copy) => this.form.withAnswer(this.form.parse(copy, sessionId), request, said),
    });
    await forking.catch(async (error: unknown) => {
      throw alreadyAnswered(requestId, await this.#openFirst({ sessionId, branch, requestId }, error));
    });
    return said;
  }

  /** The answer that was faster, after a conflict with it; throws any other error. */
  async #openFirst(given: RequestPlace & { readonly requestId: string }, error: unknown): Promise<RequestAnswer> {
    const first = hasErrorCode(error, 'CONFLICT') ? await this.read(given, given.requestId) : undefined;
    if (first === undefined) throw error;
    return first;
  }

  /** Leaves an answer as anybody else would, so that either it is heard, or whoever was faster. */
  async giveOrRead(given: GivenAnswer): Promise<RequestAnswer> {
    return this.give(given).catch((error: unknown) => this.#openFirst(given, error));
  }

  /** Answers a request whose time is over as a person would; undefined before that. */
  async timeOut(place: RequestPlace, request: Request): Promise<RequestAnswer | undefined> {
    const nowMs = this.#manager.engine.ports.now();
    if (!isOver(request, nowMs)) return undefined;
    const { answer, by } = byTimeout(request, nowMs);
    return this.giveOrRead({ ...place, requestId: request.id, answer, by });
  }

  /** Leaves answers by the ids of their requests, all or, if one is refused, none. One that says what was answered before is no news. */
  async giveAll(place: RequestPlace, answers: AnswersById, by: string): Promise<void> {
    const all = Object.entries(answers).map(([requestId, said]) => {
      return { ...place, requestId, by, ...(typeof said === 'string' ? { answer: said } : said) };
    });
    for (const given of all) await this.#unlessKnown(given, () => this.#check(given));
    for (const given of all) await this.#unlessKnown(given, () => this.give(given));
  }

  async #unlessKnown(given: GivenAnswer, act: () => Promise<unknown>): Promise<void> {
    await act().catch(async (error: unknown) => {
      const { answer, value } = await this.#openFirst(given, error);
      if (answer !== given.answer || !isDeepStrictEqual(value, given.value)) throw error;
    });
  }

  async #locate(place: RequestPlace) {
    const sessionId = parseSessionId(place.sessionId);
    const branch = place.branch ?? (await this.#manager.currentBranch(sessionId));
    return { sessionId, branch };
  }

  async #open(place: RequestPlace) {
    const { repository } = this.#manager.engine;
    const { sessionId, branch } = await this.#locate(place);
    const headId = await repository.readRef(sessionId, 'branch', branch);
    if (headId === undefined)
      throw new NotFoundError(`Session "${sessionId}" has no branch "${branch}".`, { details: { sessionId, branch } });
    const state = this.form.parse(await this.#manager.load(headId), sessionId);
    return { sessionId, branch, headId, state };
  }
}

/** Ids come from people: `constructor` is not one of a request. */
export function findOwn<Value>(values: Readonly<Record<string, Value>>, id: string): Value | undefined {
  return Object.hasOwn(values, id) ? values[id] : undefined;
}

function checkOption({ id, options }: AnyRequest, answer: string): void {
  if (options.length === 0 || answer === REJECT || options.includes(answer)) return;
  throw new InvalidInputError(
    `Request "${id}" cannot be answered with "${answer}".${formatSuggestion(suggest(answer, options))} It takes: ${options.join(', ')}.`,
    { details: { requestId: id, options } },
  );
}

/** Refuses what comes with an answer where nobody reads it, so that no words of a person are lost. */
export function checkNoValue({ id }: AnyRequest, { answer, value }: GivenAnswer, advice: string): void {
  if (value === undefined) return;
  throw new InvalidInputError(
    `The answer "${answer}" to "${id}" takes no value; found ${describeValue(value)}. ${advice}`,
    { details: { requestId: id } },
  );
}

function unknownRequest(sessionId: string, requestId: string, known: readonly string[]): NotFoundError {
  const asked = known.length === 0 ? 'It asks nothing.' : `It asks: ${known.join(', ')}.`;
  return new NotFoundError(
    `Session "${sessionId}" asks nothing called "${requestId}".${formatSuggestion(suggest(requestId, known))} ${asked}`,
    { details: { sessionId, requestId, known } },
  );
}

function tooLate({ id: requestId, deadlineMs = 0 }: AnyRequest, { answer, by, atMs }: RequestAnswer): ConflictError {
  return new ConflictError(
    `Request "${requestId}" was due by ${new Date(deadlineMs).toISOString()}. Nobody answered in time, so it was decided: "${answer}".`,
    { details: { requestId, deadlineMs, answer, by, atMs } },
  );
}

function alreadyAnswered(requestId: string, { answer, by, atMs }: RequestAnswer): ConflictError {
  return new ConflictError(
    `Request "${requestId}" was already answered by ${by}: "${answer}", at ${new Date(atMs).toISOString()}.`,
    { details: { requestId, answer, by, atMs } },
  );
}
