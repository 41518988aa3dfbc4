import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { drawn, trials } from '../../../test/support/trials.ts';
import type { DriftSnapshot } from './drift-detector.ts';
import { DriftDetector } from './drift-detector.ts';
import type { DriftOptions } from './drift-options.ts';
import type { DriftEvent } from './step/drift-event.ts';

const OPTIONS: DriftOptions = { judge: () => Promise.resolve({ unproductive: 0.5 }), expectedCycles: 2 };

const words = (seed: number, count: number) =>
  Array.from({ length: count }, (_, at) => `w${(seed * 7919 + at * 104_729 + ((seed * at) % 9973)) % 200_003}`).join(
    ' ',
  );

/** One of everything that leaves a trace. */
const EVENTS: readonly DriftEvent[] = [
  { kind: 'goal', agent: 'chief', text: 'Your goal is to count the lamps along the river.' },
  { kind: 'plan', agent: 'worker', text: 'First look, then count.' },
  ...Array.from({ length: 14 }, (_, at): DriftEvent[] => [
    { kind: 'cycle', agent: 'worker', at: at * 1000 },
    { kind: 'message', agent: 'worker', text: `I look once more, for the ${at}th time, along the river.` },
    {
      kind: 'call',
      agent: 'worker',
      name: 'look',
      input: { at: 'river' },
      callId: `c${at}`,
      stateDigest: 's1',
      contextTokens: at % 3 === 0 ? 10 : 190_000,
    },
    ...(at % 5 === 4
      ? []
      : [{ kind: 'result', callId: `c${at}`, text: 'nothing there at all', isError: at % 2 === 0 }]),
  ]).flat(),
];

const TAKEN = JSON.stringify(seenAll().snapshot());

function seenAll(): DriftDetector {
  const detector = new DriftDetector(OPTIONS);
  for (const event of EVENTS) detector.observe(event);
  return detector;
}

const taken = (): DriftSnapshot => JSON.parse(TAKEN);

const explode = (): never => {
  throw new Error('Not to be read.');
};

type Node = { [key: string]: unknown };

/** All places in a value, as the objects that hold them and their keys there. */
function placesIn(value: unknown): [holder: Node, key: string][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, part]) => [[value as Node, key] as [Node, string], ...placesIn(part)]);
}

const refusal = expect.objectContaining({ code: 'INVALID_INPUT' });

describe('snapshots', () => {
  test('[drift.11] one of a version that did not know teams and repeated calls is taken up', () => {
    const old = taken() as unknown as Record<'tracker' | 'signals', Record<string, Node>>;
    delete old.tracker.likeness;
    delete old.tracker.knowledge?.planned;
    delete old.signals.stall?.team;
    const detector = new DriftDetector(OPTIONS);
    detector.restore(old as unknown as DriftSnapshot);
    expect(detector.observe({ kind: 'cycle' })).toMatchObject({ index: EVENTS.length, repetitiveness: 0 });
  });

  test.each<[string, unknown]>([
    ['undefined', undefined],
    ['null', null],
    ['a number', 5],
    ['a text', 'snapshot'],
    ['a list', []],
    ['a function', () => 1],
    ['a version without more', { version: 1 }],
    ['one that throws', Object.defineProperty({}, 'version', { enumerable: true, get: explode })],
    ['a text for a tracker', { ...taken(), tracker: 'none' }],
    ['null for signals', { ...taken(), signals: null }],
    ['a hole in its window', { ...taken(), window: [undefined] }],
    ['a function in its window', { ...taken(), window: [{ text: () => 1 }] }],
    ['a count below zero', { ...taken(), count: -1 }],
    ['an unknown kind of drift', { ...taken(), ledger: { accounts: [['love x', { nats: 1 }]], evidence: [] } }],
  ])('[drift.11] %s is refused, and the detector is as it was', (_name, snapshot) => {
    const detector = seenAll();
    const before = detector.snapshot();
    expect(() => detector.restore(snapshot as DriftSnapshot)).toThrowError(refusal);
    expect(detector.snapshot()).toEqual(before);
  });

  test('[drift.11] a refusal names the damaged part', () => {
    const snapshot = { ...taken(), ledger: {} } as unknown as DriftSnapshot;
    expect(() => new DriftDetector().restore(snapshot)).toThrowError(/damaged in "ledger"/);
  });

  test('[drift.11] however one place in it is damaged, it is refused, or what it says can be gone on from', () => {
    const junk = fc.constantFrom<unknown>(
      undefined,
      null,
      -3,
      0.5,
      1e300,
      '',
      'x',
      true,
      [],
      [[]],
      [null],
      {},
      { a: 1 },
    );
    let refused = 0;
    const damagedAt = (snapshot: DriftSnapshot) =>
      placesIn(snapshot).filter(([holder]) => !Array.isArray(holder) || holder.length < 64);
    const go = (snapshot: DriftSnapshot): void => {
      const detector = new DriftDetector(OPTIONS);
      try {
        detector.restore(snapshot);
      } catch (error) {
        refused++;
        expect(error).toEqual(refusal);
        return;
      }
      for (const event of EVENTS) detector.observe(event);
      // What was accepted must not have planted anything that is refused later.
      new DriftDetector(OPTIONS).restore(JSON.parse(JSON.stringify(detector.snapshot())));
    };
    const count = damagedAt(taken()).length;
    fc.assert(
      fc.property(fc.nat(count - 1), junk, (nth, bad) => {
        const snapshot = taken();
        const [holder, key] = damagedAt(snapshot)[nth] ?? [{}, ''];
        holder[key] = bad;
        go(snapshot);
      }),
      drawn(2_000),
    );
    expect(refused).toBeGreaterThan(trials(1_000));
  });

  test('[drift.11] one of an earlier release, with tables as lists and sums of the run, is taken', () => {
    const snapshot = taken();
    const numbers = Array.from({ length: 8000 }, (_, at) => at * 131 + 1);
    const tables = { runs: numbers, words: numbers, spoken: numbers, targets: numbers };
    const older = {
      ...snapshot,
      tracker: { ...snapshot.tracker, knowledge: tables },
      sums: { steps: 3 },
    };
    const detector = new DriftDetector(OPTIONS);
    detector.restore(older as unknown as DriftSnapshot);
    for (const event of EVENTS) detector.observe(event);
    new DriftDetector(OPTIONS).restore(JSON.parse(JSON.stringify(detector.snapshot())));
  });

  test.each([
    [1, 150_000],
    [2, 162_000],
  ])(
    '[drift.10] after many events by %i agents, in a loop with calls unanswered, it takes less than %i characters',
    (agents, limit) => {
      const detector = new DriftDetector();
      const call = (at: number, input: unknown) => {
        const stateDigest = `sha256:${String(at).padStart(64, '0')}`;
        const callId = `toolu_${String(at).padStart(24, '0')}`;
        detector.observe({
          kind: 'call',
          agent: `agent${(at / 2) % agents}`,
          name: `tool${at % 7}`,
          callId,
          input,
          stateDigest,
        });
      };
      const answer = (at: number, text: string) =>
        detector.observe({ kind: 'result', callId: `toolu_${String(at).padStart(24, '0')}`, text });
      for (let at = 0; at < Math.min(40_000, trials(400_000)); at += 2) {
        call(at, { path: `file${at}`, query: words(at, 80) });
        answer(at, words(at + 1, 60));
      }
      for (let at = 0; at < 1400; at += 2) {
        call(at, { path: 'file', query: words(1, 80) });
        if (at < 1350) answer(at, 'Nothing was found.');
      }
      const snapshot = detector.snapshot();
      expect(snapshot.ledger.evidence).toHaveLength(24);
      expect(snapshot.tracker.open).toHaveLength(16);
      expect(JSON.stringify(snapshot).length).toBeLessThan(limit);
      expect(JSON.stringify(snapshot).length).toBeGreaterThan(limit * 0.8);
      const copy = new DriftDetector();
      copy.restore(snapshot);
      expect(copy.snapshot()).toEqual(snapshot);
    },
  );
});
