import { z } from 'zod';
import { withoutUndefined } from '../../../core/defined.ts';
import { withDeadline } from '../../../core/time/deadline.ts';
import { boundedJson, boundText, detach } from './bounded.ts';
import { type DriftEvent, fieldsOf, nameField, numberField, textField, textOf } from './drift-event.ts';
import type { DriftEvidence } from './signal.ts';

/** What a judge is shown. */
export type JudgeQuestion = {
  /** The goal as the events or the options stated it. */
  readonly goal: string | undefined;
  /** The last events, long texts cut. */
  readonly window: readonly DriftEvent[];
  readonly evidence: readonly DriftEvidence[];
};

/** What a judge says. */
export type JudgeVerdict = {
  /** How sure it is that the agent is getting nowhere, 0 to 1. */
  readonly unproductive: number;
  readonly reason?: string;
};

/**
 * Looks at the last events where the signals are in doubt: a model's prompt, or a person. The signal aborts when nobody waits for
 * the answer any longer.
 */
export type DriftJudge = (question: JudgeQuestion, options: { readonly signal: AbortSignal }) => Promise<JudgeVerdict>;

/** What a judge's answer is worth; undefined if it cannot be read as one. */
export type HeardVerdict = { readonly nats: number; readonly reason: string };

/** A judge's word moves the odds by at most 20 to 1, so that it never decides against all the signals. */
const MAX_JUDGE_NATS = 3;
const MAX_TEXT_CHARS = 2000;

/** Asks a judge and waits for its answer, but not for ever: one that does not answer in time has failed. */
export async function askJudge(
  judge: DriftJudge,
  question: JudgeQuestion,
  timeoutMs: number,
): Promise<HeardVerdict | undefined> {
  const onTimeout = () => new Error(`The judge did not answer within ${timeoutMs} ms.`);
  // An open question must not keep a process alive that has nothing else to do.
  const deadline = { timeoutMs, onTimeout, keepsProcessAlive: false };
  return readVerdict(await withDeadline(deadline, (signal) => judge(question, { signal })));
}

/** Why a judge failed, in words, whatever it threw. */
export function problemOf(error: unknown): string {
  try {
    return boundText(String(error instanceof Error ? error.message : error), MAX_TEXT_CHARS);
  } catch {
    // Not even that can be said of a revoked proxy.
    return 'The judge failed.';
  }
}

const VERDICT = z.object({
  unproductive: z.number().min(0).max(1),
  reason: z.string().catch('The judge was asked.'),
});

function readVerdict(verdict: unknown): HeardVerdict | undefined {
  const { data } = VERDICT.safeParse(verdict);
  if (data === undefined) return undefined;
  const odds = Math.log(data.unproductive / (1 - data.unproductive));
  const nats = Math.max(-MAX_JUDGE_NATS, Math.min(MAX_JUDGE_NATS, odds));
  return { nats, reason: boundText(data.reason, MAX_TEXT_CHARS) };
}

const TEXTS = ['kind', 'agent', 'role', 'name', 'callId', 'input', 'output', 'text', 'stateDigest'];

/** The form of an event as a judge is shown it. */
export const keptEvent = z.object({
  ...Object.fromEntries(TEXTS.map((field) => [field, z.string().optional()])),
  isError: z.boolean().optional(),
  at: z.number().optional(),
  contextTokens: z.number().optional(),
});

/** An event as a judge sees it, and as it is kept till then: inputs and outputs as text, long texts cut in the middle, nothing else. */
export function clipEvent(event: unknown): DriftEvent {
  const fields = fieldsOf(event);
  const seen = {
    kind: nameField(fields.kind),
    agent: nameField(fields.agent),
    role: nameField(fields.role),
    name: nameField(fields.name),
    callId: nameField(fields.callId),
    input: fields.input === undefined ? undefined : clip(formatValue(fields.input)),
    output: fields.output === undefined ? undefined : clip(formatValue(fields.output)),
    text: typeof fields.text === 'string' ? clip(fields.text) : undefined,
    isError: typeof fields.isError === 'boolean' ? fields.isError : undefined,
    at: numberField(fields.at),
    contextTokens: numberField(fields.contextTokens),
    stateDigest: nameField(fields.stateDigest),
  };
  return withoutUndefined(seen);
}

function formatValue(value: unknown): string {
  return textField(value) ?? boundedJson(value) ?? textOf(value);
}

function clip(text: string): string {
  if (text.length <= MAX_TEXT_CHARS) return text;
  const half = MAX_TEXT_CHARS / 2;
  return detach(`${text.slice(0, half)} […] ${text.slice(-half)}`);
}
