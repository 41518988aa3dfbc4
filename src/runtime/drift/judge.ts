import { type DriftEvent, textOf } from './drift-event.ts';
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

/** Looks at the last events where the signals are in doubt: a model's prompt, or a person. */
export type DriftJudge = (question: JudgeQuestion) => Promise<JudgeVerdict>;

/** A judge's word moves the odds by at most 20 to 1, so that it never decides against all the signals. */
const MAX_JUDGE_NATS = 3;
const MAX_TEXT_CHARS = 2000;

/** A verdict as evidence; undefined if it is no number from 0 to 1. */
export function verdictNats({ unproductive }: JudgeVerdict): number | undefined {
  if (typeof unproductive !== 'number' || !(unproductive >= 0 && unproductive <= 1)) return undefined;
  const odds = Math.log(unproductive / (1 - unproductive));
  return Math.max(-MAX_JUDGE_NATS, Math.min(MAX_JUDGE_NATS, odds));
}

/** An event as a judge sees it: inputs and outputs as text, long texts cut in the middle. */
export function clipEvent(event: DriftEvent): DriftEvent {
  return {
    ...event,
    ...(typeof event.text === 'string' && { text: clip(event.text) }),
    ...(event.output !== undefined && { output: clip(formatValue(event.output)) }),
    ...(event.input !== undefined && { input: clip(formatValue(event.input)) }),
  };
}

function formatValue(value: unknown): string {
  if (typeof value === 'string') return value;
  try {
    return JSON.stringify(value) ?? '';
  } catch (error) {
    if (error instanceof TypeError) return textOf(value);
    throw error;
  }
}

function clip(text: string): string {
  if (text.length <= MAX_TEXT_CHARS) return text;
  const half = MAX_TEXT_CHARS / 2;
  return `${text.slice(0, half)} […] ${text.slice(-half)}`;
}
