import { withDeadline } from '../../core/time/deadline.ts';
import type { ManagerPorts } from '../../manager/engine/ports.ts';
import type { Effects } from '../agent/effects.ts';
import type { Fleet } from './fleet.ts';
import type { FleetAnswers } from './fleet-answers.ts';
import { type FleetAnswer, type FleetQuestion, type FleetRequest, REJECT, WaitingForAnswer } from './fleet-request.ts';

/** Asks a person; undefined if there is no answer now: then the run stops, and goes on when there is one. */
export type AskFleet = (
  request: FleetRequest,
  options: { readonly signal: AbortSignal },
) => Promise<(Pick<FleetAnswer, 'answer' | 'value'> & { readonly by?: string }) | undefined>;

type QuestionParts = {
  readonly fleet: Fleet;
  readonly answers: FleetAnswers;
  readonly place: { readonly sessionId: string; readonly branch: string };
  readonly ports: ManagerPorts;
  /** Whether answers come from people, and not only from a recording. */
  readonly isLive: boolean;
  readonly ask?: AskFleet | undefined;
  readonly signal?: AbortSignal | undefined;
};

/** What asking needs of the turn it is asked in: its calls, and how to save it halfway. */
export type AskingTurn = { readonly effects: Effects; readonly save: () => Promise<void> };

/** Who answers for an in-process `ask` that does not say. */
const SOMEONE = 'user';

/** Asks people, once each. What they said is an effect, and what they are asked is in the checkpoint before they are. */
export class Questions {
  readonly #parts: QuestionParts;

  constructor(parts: QuestionParts) {
    this.#parts = parts;
  }

  /** The answer; throws WaitingForAnswer if there is none yet. */
  async ask(question: FleetQuestion, turn: AskingTurn): Promise<FleetAnswer> {
    const { fleet, isLive, signal } = this.#parts;
    // Looked for outside the effect: that nobody has answered yet is nothing to be recorded.
    const found = isLive ? await this.#find(question, turn) : undefined;
    const call = { kind: 'human', name: question.agent, input: question, signal } as const;
    const answer = await turn.effects.run(call, async () => found ?? (await this.#find(question, turn)));
    const { [question.id]: _, ...requests } = fleet.record.requests;
    fleet.change({ requests, answers: { ...fleet.record.answers, [question.id]: answer } });
    return answer;
  }

  async #find(question: FleetQuestion, turn: AskingTurn): Promise<FleetAnswer> {
    const { fleet, answers, place } = this.#parts;
    const known = fleet.record.answers[question.id] ?? (await answers.read(place, question.id));
    if (known !== undefined) return known;
    const request = fleet.record.requests[question.id] ?? (await this.#open(question, turn));
    const answer = (await this.#askNow(request)) ?? (await this.#timeOut(request));
    if (answer !== undefined) return answer;
    throw new WaitingForAnswer(request);
  }

  /** Puts the request into a checkpoint: from now on it can be answered from anywhere. */
  async #open(question: FleetQuestion, turn: AskingTurn): Promise<FleetRequest> {
    const { fleet, ports } = this.#parts;
    const { approvalTimeoutMs, autoRejectOnTimeout } = fleet.record.settings.policy;
    const askedAtMs = ports.now();
    const hasDeadline = approvalTimeoutMs !== null && question.kind !== 'reply';
    const request: FleetRequest = {
      ...question,
      askedAtMs,
      ...(hasDeadline && { deadlineMs: askedAtMs + approvalTimeoutMs }),
      onTimeout: hasDeadline && autoRejectOnTimeout ? 'reject' : 'wait',
    };
    fleet.change({ requests: { ...fleet.record.requests, [question.id]: request } });
    await turn.save();
    return request;
  }

  async #askNow(request: FleetRequest): Promise<FleetAnswer | undefined> {
    const { ask, ports, signal } = this.#parts;
    if (ask === undefined || this.#isLate(request)) return undefined;
    const timeoutMs = request.onTimeout === 'wait' ? Number.POSITIVE_INFINITY : (request.deadlineMs ?? 0) - ports.now();
    const late = new Error('Nobody answered in time.');
    try {
      const deadline = { signal, timeoutMs, onTimeout: () => late };
      const said = await withDeadline(deadline, (aborted) => ask(request, { signal: aborted }));
      return said === undefined ? undefined : await this.#give(request, { by: SOMEONE, ...said });
    } catch (error) {
      if (error !== late) throw error;
      return undefined;
    }
  }

  #isLate({ onTimeout, deadlineMs }: FleetRequest): boolean {
    return onTimeout === 'reject' && deadlineMs !== undefined && this.#parts.ports.now() >= deadlineMs;
  }

  async #timeOut(request: FleetRequest): Promise<FleetAnswer | undefined> {
    return this.#isLate(request) ? this.#give(request, { answer: REJECT, by: 'timeout' }) : undefined;
  }

  async #give({ id }: FleetRequest, said: Pick<FleetAnswer, 'answer' | 'by' | 'value'>): Promise<FleetAnswer> {
    const { answers, place } = this.#parts;
    return answers.giveOrRead({ ...place, requestId: id, ...said });
  }
}
