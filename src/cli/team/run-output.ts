import { messageOf } from '../../core/errors.ts';
import type { Context } from '../base/context.ts';
import { EXIT, type ExitCode, exitCodeOf } from '../base/exit-code.ts';
import { askPerson } from './ask-person.ts';
import { describeStop, formatAnswer, toQuestion } from './run-text.ts';
import { Speech } from './speech.ts';
import type { Following, TeamResult } from './talk.ts';

/** A run as `--json` tells it. */
export function toRunOutput(result: TeamResult, isKept: boolean) {
  const { sessionId, branch, checkpointId, status, messages, totals } = result;
  return {
    ...describeKind(result),
    ...describeEnd(result),
    sessionId,
    branch,
    checkpointId: (isKept ? checkpointId : undefined) ?? null,
    status,
    detail: describeStop(result, isKept ? undefined : null),
    question: result.status === 'waiting' ? toQuestion(result.request) : null,
    messages: messages.map(({ name, content }) => ({ name, content })),
    tokens: totals.inputTokens + totals.outputTokens,
    costUsd: totals.costUsd,
  };
}

function describeKind(result: TeamResult) {
  if (!('newMessages' in result)) return { kind: 'fleet', newMessages: null, folder: null };
  return { kind: 'chat', newMessages: result.newMessages, folder: result.folder ?? null };
}

function describeEnd(result: TeamResult) {
  if (result.status !== 'ended') return { reason: null, signal: null, answer: null };
  const { end } = result;
  if ('answer' in end) return { reason: end.reason, signal: null, answer: end.answer };
  return { reason: end.reason, signal: end.signal ?? null, answer: null };
}

/** Follows a run on the terminal: words as they come, and at the end how it stopped. */
export class RunFollower {
  readonly #context: Context;

  constructor(context: Context) {
    this.#context = context;
  }

  /** What a run needs in order to be followed. */
  get following(): Following {
    const { signal, terminal, globals } = this.#context;
    const canAsk = terminal.canAsk && globals.input && !this.#context.isJson;
    const { onText, onMessage } = new Speech(this.#context.isJson ? () => undefined : terminal.print);
    return {
      signal,
      onText,
      onMessage,
      onWork: (line) => this.#context.say(line),
      ...(canAsk && { ask: askPerson }),
    };
  }

  /** Tells how it stopped; answers the exit code. */
  async end(result: TeamResult): Promise<ExitCode | undefined> {
    const answer = formatAnswer(result);
    const isKept = await this.#context.keepsRuns();
    const output = toRunOutput(result, isKept);
    await this.#context.answer(output, () => `${answer}\n${output.detail}\n`);
    if (isKept)
      this.#context.say(
        `session ${result.sessionId}, branch ${result.branch}, ${result.checkpointId ?? 'no checkpoint'}`,
      );
    for (const { text } of result.differences) this.#context.say(`warning: ${text}`);
    const problems = [...result.failedSaves, ...('fileProblems' in result ? result.fileProblems : [])];
    for (const problem of problems) this.#context.say(`warning: ${messageOf(problem)}`);
    return exitCodeOfRun(result);
  }
}

/** What waits for a person is done in part. */
function exitCodeOfRun(result: TeamResult): ExitCode | undefined {
  switch (result.status) {
    case 'ended':
      return undefined;
    case 'waiting':
      return EXIT.partial;
    case 'failed':
      return exitCodeOf(result.error);
    case 'stopped':
      return EXIT.interrupted;
  }
}
