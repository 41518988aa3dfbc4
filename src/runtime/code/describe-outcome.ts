import type { CodeResult } from './code-executor.ts';
import type { ProcessOutcome } from './code-process.ts';

type Measured = { readonly language: string; readonly durationMs: number };
type Ran = Measured & { readonly file: string; readonly timeoutMs: number };

const TRACE_CHARS = 4000;

const ERROR_LINE = /^\s*(?:Uncaught )?[\w.]*(?:Error|Exception|Interrupt|Exit)\b(?:.{0,300})/;

/** The result of a block that was not run. */
export function describeFailure(message: string, measured: Measured): CodeResult {
  return { exitCode: null, output: '', isTruncated: false, isTimedOut: false, ...measured, failure: { message } };
}

/** The result of a block that ran. */
export function describeOutcome(outcome: ProcessOutcome, { timeoutMs, ...measured }: Ran): CodeResult {
  const { exitCode, signal, stopped, output } = outcome;
  const message = failureMessage(outcome, timeoutMs);
  const trace = output.text.slice(-TRACE_CHARS);
  const failure = { message: message ?? '', ...(trace === '' ? {} : { trace }) };
  return {
    exitCode,
    ...(signal === null ? {} : { signal }),
    output: output.text,
    isTruncated: output.isTruncated,
    isTimedOut: stopped === 'timeout',
    ...measured,
    ...(message === undefined ? {} : { failure }),
  };
}

function failureMessage({ exitCode, signal, stopped, error, output }: ProcessOutcome, timeoutMs: number) {
  if (error !== undefined) return `The code could not be run: ${error.message}`;
  switch (stopped) {
    case 'timeout':
      return `The code did not end within ${timeoutMs} ms and was stopped.`;
    case 'flood':
      return `The code was stopped because it had printed ${output.totalBytes} bytes.`;
    case 'closed':
    case 'abort':
      return 'The code was stopped because its executor was closed.';
    case undefined:
      return exitMessage(exitCode, signal, output.text);
  }
}

function exitMessage(exitCode: number | null, signal: string | null, output: string): string | undefined {
  if (exitCode === 0) return undefined;
  const ending = signal === null ? `exited with ${exitCode}` : `was ended by ${signal}`;
  const line = output
    .slice(-TRACE_CHARS)
    .split('\n')
    .findLast((text) => ERROR_LINE.test(text));
  return line === undefined ? `The code ${ending}.` : `The code ${ending}: ${line.trim()}`;
}
