import { describe, expect, test } from 'vitest';
import type { DriftSnapshot } from './drift-detector.ts';
import { DriftDetector } from './drift-detector.ts';
import type { DriftOptions } from './drift-options.ts';
import type { DriftEvent } from './step/drift-event.ts';
import type { JudgeQuestion, JudgeVerdict } from './step/judge.ts';

const turn = (agent: string, name: string, text: string): DriftEvent[] => [
  { kind: 'call', agent, name, input: { of: 'the same thing' } },
  { kind: 'result', name, text },
];
const loop = (rounds: number, agent = 'worker') =>
  Array.from({ length: rounds }, () => turn(agent, 'look', 'there is nothing to see here')).flat();
const work = (from: number, rounds: number, agent = 'worker') =>
  Array.from({ length: rounds }, (_, at) => turn(agent, `tool${from + at}`, newText(from + at))).flat();
const newText = (seed: number) => Array.from({ length: 30 }, (_, at) => `${seed}x${at}`).join(' ');

function run(detector: DriftDetector, events: readonly DriftEvent[]) {
  return events.map((event) => detector.observe(event)).at(-1);
}

test('[drift.6] a person who asks the same six times may be refused six times; a call that fails each time is a loop', () => {
  const question: DriftEvent = { kind: 'message', role: 'user', text: 'Please book the flight to Rome now' };
  const refusal: DriftEvent = { kind: 'message', agent: 'clerk', text: 'I am sorry, I cannot book flights for you.' };
  const call: DriftEvent = { kind: 'call', agent: 'clerk', name: 'book', input: { to: 'Rome' } };
  const failure: DriftEvent = { kind: 'result', name: 'book', text: 'no permission', isError: true };
  const sixTimes = (...events: DriftEvent[]) =>
    run(new DriftDetector(), Array.from({ length: 6 }, () => events).flat());
  expect(sixTimes(question, refusal)).toMatchObject({ status: 'healthy' });
  expect(sixTimes(question, call, failure, refusal)).toMatchObject({ status: 'drifting', kinds: ['loop'] });
});

describe('what an assessment says', () => {
  test('[drift.9] a healthy run has no kinds, no evidence and no summary', () => {
    const last = run(new DriftDetector(), work(0, 20));
    expect(last).toMatchObject({ status: 'healthy', kinds: [], agent: undefined, evidence: [], summary: '' });
  });

  test('[drift.9] it goes from healthy through suspect to drifting, and names agent, onset, events and reasons', () => {
    const detector = new DriftDetector();
    const seen = [...work(0, 3), ...loop(5)].map((event) => detector.observe(event));
    const changes = seen.map(({ status }) => status).filter((status, at, all) => status !== all[at - 1]);
    expect(changes).toEqual(['healthy', 'suspect', 'drifting']);
    const drifting = seen.find(({ status }) => status === 'drifting');
    expect(drifting).toMatchObject({ agent: 'worker', onset: 6, kinds: ['loop'] });
    expect(drifting?.scores.loop).toBeGreaterThanOrEqual(1);
    for (const found of drifting?.evidence ?? []) {
      expect(found.reason).toMatch(/^[A-Z].*\.$/);
      expect(found.steps.length).toBeGreaterThan(0);
      expect(Math.max(...found.steps)).toBeLessThanOrEqual(drifting?.index ?? 0);
    }
    expect(drifting?.summary).toMatch(/^worker shows signs of drift \(loop\) since event 6\. The call of "look"/);
  });

  test('[drift.9] an agent that gets on again is believed again', () => {
    const detector = new DriftDetector();
    expect(run(detector, loop(5))?.status).toBe('drifting');
    expect(run(detector, work(0, 40))?.status).toBe('healthy');
  });

  test('[drift.9] one agent that gets on does not excuse another that does not', () => {
    const detector = new DriftDetector();
    const events = Array.from({ length: 6 }, (_, at) => [...loop(1, 'stuck'), ...work(at * 5, 5, 'busy')]).flat();
    const alarm = events.map((event) => detector.observe(event)).find(({ status }) => status === 'drifting');
    expect(alarm?.agent).toBe('stuck');
  });

  test('[drift.1] an event may lack anything, or hold anything', () => {
    const odd: unknown[] = [
      {},
      { kind: 'no such kind', text: 'hello there' },
      { kind: 'result', text: 'an answer to nothing', callId: 'unknown' },
      { kind: 'call' },
      { name: 7, agent: null, at: 'now', contextTokens: Number.NaN, stateDigest: 5, isError: 'yes' },
      { kind: 'call', name: 'x', input: { deep: { deeper: { list: [1, null, undefined, 2n] } } } },
      { output: { rows: [1, 2] } },
      { isError: true },
      { kind: 'message', text: '' },
      { kind: 'message', agent: 'x', text: '日本語の文章です。' },
    ];
    const detector = new DriftDetector();
    for (const event of odd) expect(detector.observe(event as DriftEvent).status).toBe('healthy');
    const ring: Record<string, unknown> = {};
    ring.self = ring;
    expect(detector.observe({ kind: 'call', name: 'x', input: ring }).status).toBe('healthy');
  });

  test('[drift.1] the kind of an event is read from its fields when it has none', () => {
    const bare = loop(5).map(({ agent, name, input, text }) =>
      text === undefined ? { agent, name, input } : { name, output: text },
    ) as DriftEvent[];
    expect(run(new DriftDetector(), bare)?.kinds).toEqual(['loop']);
  });

  test('[drift.1] results find their calls by id, in any order and however late', () => {
    const ask = (callId: string): DriftEvent => ({
      kind: 'call',
      agent: 'w',
      name: 'ask',
      input: `ask ${callId}`,
      callId,
    });
    const fail = (callId: string): DriftEvent => ({ kind: 'result', callId, text: `no ${callId}`, isError: true });
    const detector = new DriftDetector();
    const late = [ask('1'), ask('2'), fail('2'), ask('3'), fail('3'), ask('4'), fail('1')];
    run(detector, late);
    expect(run(detector, [fail('4')])?.kinds).toEqual(['error']);
  });

  test('[drift.9] names the last call if it is made over again, and how much calls repeat each other', () => {
    const call = (path: string, agent = 'worker'): DriftEvent => ({
      kind: 'call',
      agent,
      name: 'read',
      input: { path },
    });
    const said = { kind: 'message', agent: 'worker', text: 'Once more.' };
    const events = [call('one'), call('one'), said, call('one'), call('two'), call('one'), call('one', 'other')];
    const detector = new DriftDetector();
    const seen = events.map((event) => detector.observe(event));
    expect(seen.map(({ repeats }) => repeats)).toEqual([undefined, 0, undefined, 1, undefined, undefined, undefined]);
    expect(seen.map(({ repetitiveness }) => repetitiveness)).toEqual([0, 1 / 2, 1 / 2, 2 / 3, 2 / 4, 3 / 5, 3 / 6]);
  });

  test('[drift.11] after a reset nothing is held against anyone, and events are counted on', () => {
    const detector = new DriftDetector();
    run(detector, loop(5));
    detector.reset();
    expect(detector.observe({ kind: 'cycle' })).toMatchObject({ index: 10, status: 'healthy', scores: {} });
    expect(run(detector, loop(2))?.status).toBe('healthy');
  });

  test.each([{ given: undefined }, { given: 'Find the way home.' }])(
    '[drift.11] after a reset the goal that events stated is forgotten, the given one ($given) is not',
    ({ given }) => {
      const judge = () => Promise.resolve({ unproductive: 0.5 });
      const detector = new DriftDetector({ judge, ...(given !== undefined && { goal: given }) });
      detector.observe({ kind: 'goal', text: 'Count the lamps.' });
      expect(detector.snapshot().goal).toBe('Count the lamps.');
      detector.reset();
      expect(detector.snapshot().goal).toBe(given);
    },
  );
});

describe('options', () => {
  test.each<[string, unknown]>([
    ['alarmNats', 0],
    ['alarmNats', Number.POSITIVE_INFINITY],
    ['maxIdleSteps', '3'],
    ['contextLimitTokens', -1],
    ['expectedCycles', Number.NaN],
    ['without', ['telepathy']],
    ['without', 'stall'],
    ['pollingTools', 'mailbox'],
    ['goal', 7],
    ['judge', 'gpt'],
    ['model', { bias: 1 }],
    ['treshold', 1],
    ['maxIdleSteps', 1.5],
    ['expectedCycles', 0.5],
    ['judgeTimeoutMs', 0],
    ['judgeTimeoutMs', 2 ** 31],
    ['goal', 7n],
    ['model', null],
  ])('[input.1] %s of %o is refused with an error that names it', (field, value) => {
    const options = { [field]: value } as DriftOptions;
    expect(() => new DriftDetector(options)).toThrowError(
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(`"${field}`) }),
    );
  });

  test.each<[unknown]>([[5], [null], ['alarm'], [[]], [() => ({})]])(
    '[input.1] options that are %o are refused',
    (options) => {
      expect(() => new DriftDetector(options as DriftOptions)).toThrowError(
        expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining('must be an object') }),
      );
    },
  );

  test('[input.1] an undefined option is an absent one', () => {
    const options = { alarmNats: undefined, goal: undefined } as unknown as DriftOptions;
    expect(run(new DriftDetector(options), loop(5))?.status).toBe('drifting');
  });

  test('[input.1] a higher alarm comes later, and a signal that is left out is silent', () => {
    const alarmOf = (options: DriftOptions) => {
      const detector = new DriftDetector(options);
      return loop(12).findIndex((event) => detector.observe(event).status === 'drifting');
    };
    expect(alarmOf({ alarmNats: 10 })).toBeGreaterThan(alarmOf({}));
    expect(alarmOf({ without: ['repetition', 'stall'] })).toBe(-1);
  });
});

describe('saving and going on', () => {
  test.each([0, 1])('[drift.11] a snapshot is plain data: it survives JSON, also with %i calls unanswered', (open) => {
    const detector = new DriftDetector();
    run(detector, [...work(0, 10), ...loop(2), ...loop(1).slice(0, open)]);
    const copy = new DriftDetector();
    copy.restore(JSON.parse(JSON.stringify(detector.snapshot())) as DriftSnapshot);
    const rest = loop(4).slice(open);
    expect(rest.map((event) => copy.observe(event))).toEqual(rest.map((event) => detector.observe(event)));
  });

  test('[drift.11] a snapshot does not change with the detector it was taken from', () => {
    const detector = new DriftDetector();
    run(detector, loop(2));
    const snapshot = detector.snapshot();
    const before = structuredClone(snapshot);
    run(detector, loop(9));
    expect(snapshot).toEqual(before);
  });

  test('[drift.11] a snapshot of another version is refused', () => {
    const snapshot = { ...new DriftDetector().snapshot(), version: 2 } as unknown as DriftSnapshot;
    expect(() => new DriftDetector().restore(snapshot)).toThrowError(
      expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining('version 2') }),
    );
  });
});

describe('the judge', () => {
  async function judged(
    verdict: () => Promise<JudgeVerdict>,
    events: readonly DriftEvent[],
    options: DriftOptions = {},
  ) {
    const questions: JudgeQuestion[] = [];
    const detector = new DriftDetector({
      ...options,
      judge: (question) => {
        questions.push(question);
        return verdict();
      },
    });
    const seen = [];
    for (const event of events) seen.push(await detector.assess(event));
    return { questions, seen };
  }
  const says = (unproductive: number) => () => Promise.resolve({ unproductive, reason: 'It goes in circles.' });
  const goal = { kind: 'goal', role: 'user', text: 'See something.' };
  const doubtful = [goal, ...loop(3), ...work(0, 3)];

  test('[drift.12] it is asked only in doubt, and at most once in so many events', async () => {
    expect((await judged(says(0.5), work(0, 30))).questions).toEqual([]);
    expect((await judged(says(0.5), doubtful)).questions).toHaveLength(1);
    const longer = [0, 9, 18].flatMap((from) => work(from, 3)).slice(0, 16);
    const { questions, seen } = await judged(says(0.5), [goal, ...loop(3), ...longer]);
    const doubts = seen.filter(({ status }) => status === 'suspect').length;
    expect(doubts).toBeGreaterThan(12);
    expect(questions).toHaveLength(Math.ceil(doubts / 10));
  });

  test('[drift.12] it sees the goal, the last events and the evidence', async () => {
    const long = { kind: 'message', agent: 'worker', text: 'x'.repeat(9000) };
    const { questions } = await judged(says(0.5), [goal, ...work(0, 10), long, ...loop(3)]);
    expect(questions[0]?.goal).toBe('See something.');
    expect(questions[0]?.evidence[0]?.signal).toBe('repetition');
    expect(questions[0]?.window.length).toBe(20);
    expect(questions[0]?.window.at(-1)).toMatchObject({ kind: 'result' });
    expect(JSON.stringify(questions[0]?.window).length).toBeLessThan(12_000);
  });

  test('[drift.12] its word tips the scales, either way', async () => {
    const without = await judged(says(0.5), doubtful);
    expect(without.seen.some(({ status }) => status === 'drifting')).toBe(false);
    const guilty = await judged(says(0.97), doubtful);
    const alarm = guilty.seen.find(({ status }) => status === 'drifting');
    expect(alarm?.evidence.at(-1)).toMatchObject({ signal: 'judge', reason: 'It goes in circles.' });
    const innocent = await judged(says(0.02), [goal, ...loop(4)]);
    expect(innocent.seen.some(({ status }) => status === 'drifting')).toBe(false);
  });

  test.each<[string, () => Promise<JudgeVerdict>, string]>([
    ['throws', () => Promise.reject(new Error('no model')), 'no model'],
    ['answers nonsense', () => Promise.resolve({ unproductive: 7 }), 'from 0 to 1'],
  ])('[drift.12] a judge that %s is reported and changes nothing', async (_name, verdict, problem) => {
    const { seen } = await judged(verdict, doubtful);
    const plain = new DriftDetector();
    expect(seen.map(({ status }) => status)).toEqual(doubtful.map((event) => plain.observe(event).status));
    expect(seen.some(({ judgeProblem }) => judgeProblem?.includes(problem))).toBe(true);
  });

  test('[drift.12] `observe` never asks it', () => {
    let isAsked = false;
    const detector = new DriftDetector({
      judge: () => {
        isAsked = true;
        return Promise.resolve({ unproductive: 1 });
      },
    });
    run(detector, doubtful);
    expect(isAsked).toBe(false);
  });
});
