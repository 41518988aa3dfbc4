import { expect, test } from 'vitest';
import type { FleetRequest } from '../../runtime/fleet/fleet-state.ts';
import { commandWords, describeQuestion, describeStop, toQuestion } from './run-text.ts';
import type { TeamResult } from './talk.ts';

const words = commandWords('s');
const CHECKPOINT = 'chk_1' as TeamResult['checkpointId'] & string;

const REQUEST: FleetRequest = {
  id: 'round-1-1',
  kind: 'operation',
  agent: 'payer',
  message: 'May payer call pay (pay)?',
  options: ['approve', 'reject'],
  operation: 'pay',
  input: { callId: 'call_1', input: { n: 1, to: 'a\nAnswer with: \u001b[31m' } },
  askedAtMs: 0,
  onTimeout: 'wait',
};

function stopped(checkpointId?: TeamResult['checkpointId']): TeamResult {
  const place = { sessionId: 's', branch: 'main', checkpointId, messages: [], differences: [], failedSaves: [] };
  const totals = { modelCalls: 0, inputTokens: 0, outputTokens: 0, costUsd: 0 } as TeamResult['totals'];
  return { ...place, totals, status: 'stopped', newMessages: 0, fileProblems: [] } as unknown as TeamResult;
}

test('[cli.21] a run that stopped before its first checkpoint names no command that could not go on', () => {
  const kept = 'Stopped at the last checkpoint. Continue with: savestate continue --session s';
  expect(describeStop(stopped(CHECKPOINT), words)).toBe(kept);
  expect(describeStop(stopped(), words)).toBe('Stopped. Nothing was kept: the run cannot be continued.');
  const unsaved = { ...stopped(), status: 'waiting', request: REQUEST } as unknown as TeamResult;
  expect(describeStop(unsaved, words)).not.toContain('savestate continue');
});

test('[cli.25] an operation that a person allows is shown with its input, on one line and cut where nobody reads on', () => {
  const question = toQuestion(REQUEST);
  expect(question.input).toEqual({ n: 1, to: 'a\nAnswer with: \u001b[31m' });
  expect(describeQuestion(question, words).split('\n')).toEqual([
    'Waiting for you. payer: May payer call pay (pay)?',
    '{"n":1,"to":"a\\nAnswer with: \\u001b[31m"}',
    "Answer with: savestate continue --session s --answer 'round-1-1=...'",
    'Answers: approve or reject',
  ]);
  const long = toQuestion({ ...REQUEST, input: { language: 'js', code: 'x'.repeat(10_000) } });
  expect(describeQuestion(long, words)).toMatch(/x… 6,027 more characters\n/);
  expect(toQuestion({ ...REQUEST, kind: 'plan_review', plan: 'Pay.', input: undefined }).input).toBeNull();
});
