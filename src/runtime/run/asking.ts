import { accepts, checkValue, isRecord } from '../../core/options.ts';
import { withDeadline } from '../../core/time/deadline.ts';
import type { ManagerPorts } from '../../manager/engine/engine.ts';
import { type AnyRequest, deadlineOf, findOwn, type RequestAnswer, type RequestAnswers } from './request-answers.ts';

/** What an agent asks a person. */
export type AgentRequest = AnyRequest & { readonly agent: string };

/** Asks a person now; undefined if there is no answer yet: then the run stops, and goes on when there is one. */
export type AskNow<Request> = (
  request: Request,
  options: { readonly signal: AbortSignal },
) => Promise<(Pick<RequestAnswer, 'answer' | 'value'> & { readonly by?: string }) | undefined>;

const answered = accepts(
  '{ answer: "..." }, or undefined to wait',
  (said) => isRecord(said) && typeof said.answer === 'string',
);

/** Who is asked, and where answers are found. */
type Asking<State, Request extends AgentRequest> = {
  readonly inbox: RequestAnswers<State, Request>;
  readonly place: { readonly sessionId: string; readonly branch: string };
  readonly ports: ManagerPorts;
  /** Who answers for an `ask` that does not say. */
  readonly by: string;
  readonly ask: AskNow<Request> | undefined;
  /** Whether others may answer while it is asked for here. */
  readonly isAnnounced: boolean;
  readonly state: () => State;
  /** Puts a request into a checkpoint: from then on it can be answered from anywhere. */
  readonly open: (request: Request) => Promise<void>;
};

/** A run stops here until someone answers. */
export class WaitingForInput extends Error {
  readonly request: AnyRequest;

  constructor(request: AgentRequest) {
    super(`Waiting for ${request.agent} to answer "${request.id}".`);
    this.name = 'WaitingForInput';
    this.request = request;
  }
}

/** Whether an error says that a run waits; also if it comes from a recording, where its class is lost. */
export function isWaitingForInput(error: unknown): error is WaitingForInput {
  return error instanceof Error && error.name === 'WaitingForInput' && 'request' in error;
}

/** Asks people, once: whoever answers first, here or elsewhere, is heard. Throws WaitingForInput if there is no answer yet. */
export async function findAnswer<State, Request extends AgentRequest>(
  asking: Asking<State, Request>,
  request: Request,
  signal: AbortSignal | undefined,
): Promise<RequestAnswer> {
  const { inbox, place, state, open, isAnnounced } = asking;
  const known = await inbox.find(place, state(), request.id);
  if (known !== undefined) return known;
  const opened = findOwn(inbox.form.requestsOf(state()), request.id);
  if (opened === undefined && isAnnounced) await open(request);
  const isOpen = opened !== undefined || isAnnounced;
  const asked = opened ?? request;
  const answer = (await askNow({ ...asking, isOpen }, asked, signal)) ?? (await inbox.timeOut(place, asked));
  if (answer !== undefined) return answer;
  // Saved while the call is in flight: the answer takes its place in the recording, and a replay waits for nobody.
  if (!isOpen) await open(request);
  throw new WaitingForInput(asked);
}

async function askNow<State, Request extends AgentRequest>(
  { ask, ports, by, inbox, place, isOpen }: Asking<State, Request> & { readonly isOpen: boolean },
  request: Request,
  signal: AbortSignal | undefined,
): Promise<RequestAnswer | undefined> {
  const timeoutMs = (deadlineOf(request) ?? Number.POSITIVE_INFINITY) - ports.now();
  if (ask === undefined || timeoutMs <= 0) return undefined;
  const late = new Error('Nobody answered in time.');
  try {
    const deadline = { signal, timeoutMs, onTimeout: () => late };
    const said = await withDeadline(deadline, (aborted) => ask(request, { signal: aborted }));
    if (said === undefined) return undefined;
    checkValue(said, answered, 'The answer of ask()');
    if (!isOpen) return { by, ...said, atMs: ports.now() };
    return await inbox.giveOrRead({ ...place, requestId: request.id, by, ...said });
  } catch (error) {
    if (error !== late) throw error;
    return undefined;
  }
}
