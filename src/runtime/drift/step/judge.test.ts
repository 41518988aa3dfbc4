import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DriftDetector } from '../drift-detector.ts';
import type { DriftEvent } from './drift-event.ts';
import type { DriftJudge, JudgeQuestion, JudgeVerdict } from './judge.ts';

const turn: readonly DriftEvent[] = [
  { kind: 'call', agent: 'worker', name: 'look', input: { of: 'the same thing' } },
  { kind: 'result', name: 'look', text: 'there is nothing to see here' },
];
/** The last one leaves the detector in doubt. */
const DOUBTFUL = [turn, turn, turn].flat();

/** Shows all but the last event to a new detector; the judge is asked at the last. */
function inDoubt(judge: DriftJudge, judgeTimeoutMs?: number): { detector: DriftDetector; last: DriftEvent } {
  const detector = new DriftDetector({ judge, ...(judgeTimeoutMs !== undefined && { judgeTimeoutMs }) });
  for (const event of DOUBTFUL.slice(0, -1)) detector.observe(event);
  return { detector, last: DOUBTFUL.at(-1) ?? {} };
}

const never: DriftJudge = () => new Promise(() => undefined);

describe('a judge that takes its time', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test.each([
    [undefined, 30_000],
    [50, 50],
  ])('[drift.12] with a limit of %s ms it has failed after %i ms, and is told so', async (limit, waitedMs) => {
    const signals: AbortSignal[] = [];
    const { detector, last } = inDoubt((_question, { signal }) => {
      signals.push(signal);
      return new Promise(() => undefined);
    }, limit);
    const asked = detector.assess(last);
    await vi.advanceTimersByTimeAsync(waitedMs - 1);
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
    await vi.advanceTimersByTimeAsync(1);
    expect(await asked).toMatchObject({
      status: 'suspect',
      judgeProblem: `The judge did not answer within ${waitedMs} ms.`,
    });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
  });

  test.each<[string, (settle: Settle) => void]>([
    ['an answer', ({ resolve }) => resolve({ unproductive: 1 })],
    ['an error', ({ reject }) => reject(new Error('too late'))],
  ])('[drift.12] %s that comes later changes nothing', async (_name, settle) => {
    const { promise, ...settling } = deferred();
    const { detector, last } = inDoubt(() => promise, 50);
    const asked = detector.assess(last);
    await vi.advanceTimersByTimeAsync(50);
    await asked;
    const before = detector.snapshot();
    settle(settling);
    await vi.advanceTimersByTimeAsync(1);
    expect(detector.snapshot()).toEqual(before);
  });

  test('[drift.12] no timer is left behind by one that answers, or fails', async () => {
    for (const judge of [() => Promise.resolve({ unproductive: 0.5 }), () => Promise.reject(new Error('no model'))]) {
      const { detector, last } = inDoubt(judge);
      await detector.assess(last);
      expect(vi.getTimerCount()).toBe(0);
    }
  });

  test('[drift.12] an answer about what was forgotten meanwhile is not counted', async () => {
    const { promise, resolve } = deferred();
    const { detector, last } = inDoubt(() => promise);
    const asked = detector.assess(last);
    detector.reset();
    resolve({ unproductive: 1 });
    await asked;
    expect(detector.snapshot().ledger.accounts).toEqual([]);
  });
});

test('[drift.12] waiting for it does not keep the process alive', () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const { detector, last } = inDoubt(never);
  const before = timers();
  void detector.assess(last);
  expect(timers()).toBe(before);
});

test.each<[string, () => unknown, string]>([
  ['answers nothing', () => undefined, 'from 0 to 1'],
  ['answers with a getter that throws', () => Object.defineProperty({}, 'unproductive', { get: fail }), 'No.'],
  ['throws at once', fail, 'No.'],
  ['throws what has no words', () => Promise.reject(Object.create(null)), 'The judge failed.'],
])('[drift.12] a judge that %s is reported', async (_name, answer, problem) => {
  const { detector, last } = inDoubt(answer as DriftJudge);
  expect((await detector.assess(last)).judgeProblem).toContain(problem);
});

describe('what is kept for a judge', () => {
  const ring: unknown[] = [];
  ring.push(ring);
  class Secret {
    readonly #kept = 1;
    readonly open = { kept: () => this.#kept };
  }
  const odd: readonly [string, object][] = [
    ['a function in its input', { input: { run: () => 1 } }],
    ['a function as its output', { output: () => 1 }],
    ['a promise', { input: Promise.resolve(1) }],
    ['an object of a class', { input: new Secret() }],
    ['a symbol', { input: { [Symbol('a')]: Symbol('b') }, name: Symbol('c') }],
    ['itself', { input: ring }],
    ['a weak map', { output: new WeakMap() }],
    ['functions for names', { name: () => 1, agent: () => 1, isError: () => 1, at: () => 1, text: () => 1 }],
    ['fields that nobody knows', { more: () => 1 }],
  ];

  test.each(odd)('[drift.11] a snapshot can be taken and saved after an event that holds %s', (_name, fields) => {
    const { detector } = inDoubt(never);
    detector.observe({ kind: 'call', name: 'x', ...fields } as DriftEvent);
    const snapshot = detector.snapshot();
    const copy = new DriftDetector({ judge: never });
    copy.restore(JSON.parse(JSON.stringify(snapshot)));
    expect(copy.snapshot().window).toEqual(snapshot.window);
  });

  test('[drift.11] what it does to what it is shown changes nothing that is remembered', async () => {
    const { detector, last } = inDoubt(({ window, evidence }) => {
      for (const shown of [...window, ...evidence]) Object.assign(shown, { text: () => 1, reason: () => 1 });
      return Promise.reject(new Error('no model'));
    });
    await detector.assess(last);
    const { window, ledger } = detector.snapshot();
    expect(window.at(-1)?.text).toBe('there is nothing to see here');
    expect(ledger.evidence.at(-1)?.reason).toMatch(/^The call of "look"/);
  });

  test('[drift.11] it sees the fields of an event as plain values, inputs and outputs as text', async () => {
    const questions: JudgeQuestion[] = [];
    const { detector, last } = inDoubt((question) => {
      questions.push(question);
      return Promise.resolve({ unproductive: 0.5 });
    });
    await detector.assess(last);
    expect(questions[0]?.window.slice(-2)).toEqual([
      { kind: 'call', agent: 'worker', name: 'look', input: '{"of":"the same thing"}' },
      { kind: 'result', name: 'look', text: 'there is nothing to see here' },
    ]);
  });
});

function fail(): never {
  throw new Error('No.');
}

type Settle = { readonly resolve: (verdict: JudgeVerdict) => void; readonly reject: (error: Error) => void };

function deferred(): Settle & { readonly promise: Promise<JudgeVerdict> } {
  let settle: Settle = { resolve: fail, reject: fail };
  const promise = new Promise<JudgeVerdict>((resolve, reject) => {
    settle = { resolve, reject };
  });
  return { promise, ...settle };
}
