import { accepts, checkValue, isRecord } from '../../core/options.ts';
import { withDeadline } from '../../core/time/deadline.ts';
import { type AnyRequest, deadlineOf, findOwn, type RequestAnswer, type RequestAnswers } from './request-answers.ts';
import type { TeamTypes } from './team.ts';
import type { Hold } from './team-run.ts';

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

/** The team that asks, and where answers are found. */
type Asking<Of extends TeamTypes> = {
  readonly hold: Pick<Hold<Of>, 'kind' | 'team' | 'session' | 'manager' | 'ask'>;
  readonly inbox: RequestAnswers<Of['state'], Of['request']>;
  /** Who answers for an `ask` that does not say. */
  readonly by: string;
  /** Puts a request into a checkpoint: from then on it can be answered from anywhere. */
  readonly open: (request: Of['request']) => Promise<void>;
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
export async function findAnswer<Of extends TeamTypes>(
  asking: Asking<Of>,
  request: Of['request'],
  signal: AbortSignal | undefined,
): Promise<RequestAnswer> {
  const { inbox, hold, open } = asking;
  const { kind, team, session } = hold;
  const place = { sessionId: session.id, branch: session.branch };
  const known = await inbox.find(place, team.saveState(), request.id);
  if (known !== undefined) return known;
  const opened = findOwn(kind.requests.requestsOf(team.saveState()), request.id);
  if (opened === undefined && kind.announces) await open(request);
  const isOpen = opened !== undefined || kind.announces;
  const asked = opened ?? request;
  const answer = (await askNow({ ...asking, isOpen }, asked, signal)) ?? (await inbox.timeOut(place, asked));
  if (answer !== undefined) return answer;
  // Saved while the call is in flight: the answer takes its place in the recording, and a replay waits for nobody.
  if (!isOpen) await open(request);
  throw new WaitingForInput(asked);
}

async function askNow<Of extends TeamTypes>(
  { hold, by, inbox, isOpen }: Asking<Of> & { readonly isOpen: boolean },
  request: Of['request'],
  signal: AbortSignal | undefined,
): Promise<RequestAnswer | undefined> {
  const { ask, session, manager } = hold;
  const { ports } = manager.engine;
  const timeoutMs = (deadlineOf(request) ?? Number.POSITIVE_INFINITY) - ports.now();
  if (ask === undefined || timeoutMs <= 0) return undefined;
  const late = new Error('Nobody answered in time.');
  try {
    const deadline = { signal, timeoutMs, onTimeout: () => late };
    const said = await withDeadline(deadline, (aborted) => ask(request, { signal: aborted }));
    if (said === undefined) return undefined;
    checkValue(said, answered, 'The answer of ask()');
    if (!isOpen) return { by, ...said, atMs: ports.now() };
    const { id: sessionId, branch } = session;
    return await inbox.giveOrRead({ sessionId, branch, requestId: request.id, by, ...said });
  } catch (error) {
    if (error !== late) throw error;
    return undefined;
  }
}
