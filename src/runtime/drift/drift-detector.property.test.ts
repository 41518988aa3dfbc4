import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { DriftDetector } from './drift-detector.ts';
import type { DriftEvent } from './step/drift-event.ts';

const word = fc.constantFrom('river', 'stone', 'bridge', 'water', 'lamp', 'glass', 'paper', 'cloud', 'seven', 'north');
const text = fc.array(word, { maxLength: 12 }).map((words) => words.join(' '));
const event: fc.Arbitrary<DriftEvent> = fc.record(
  {
    kind: fc.constantFrom(
      'goal',
      'system',
      'plan',
      'thought',
      'message',
      'call',
      'result',
      'error',
      'cycle',
      'finish',
      'odd',
    ),
    agent: fc.constantFrom('a', 'b', 'user'),
    name: fc.constantFrom('read', 'write', 'final_answer'),
    callId: fc.constantFrom('1', '2', '3'),
    input: fc.oneof(text, fc.record({ path: word, line: fc.nat(3) })),
    text,
    isError: fc.boolean(),
    at: fc.nat(100_000),
    contextTokens: fc.nat(200_000),
    stateDigest: fc.constantFrom('s1', 's2', 's3'),
  },
  { requiredKeys: [] },
);

/** A stream in which everything changes now and then, and something repeats. */
function streamEvent(at: number): DriftEvent {
  const agent = `agent${at % 300}`;
  const digits = Array.from({ length: 30 }, (_, nth) => `t${(at * 31 + nth * nth) % 99_991}`).join(' ');
  switch (at % 4) {
    case 0:
      return { kind: 'message', agent, text: `On ${digits}` };
    case 1:
      return {
        kind: 'call',
        agent,
        name: `tool${at % 40}`,
        input: { q: digits },
        stateDigest: `s${at}`,
        at,
        contextTokens: at,
      };
    case 2:
      return { kind: 'result', text: `${digits} again`, isError: at % 22 === 0 };
    default:
      return { kind: 'cycle', agent, at, stateDigest: `s${at % 5000}` };
  }
}

const sizeOf = (detector: DriftDetector) => JSON.stringify(detector.snapshot()).length;

describe('properties', () => {
  test('[drift.11] whatever happened, a detector restored in the middle says what the first one says', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), fc.array(event, { maxLength: 30 }), (before, after) => {
        const first = new DriftDetector({ expectedCycles: 3 });
        for (const each of before) first.observe(each);
        const second = new DriftDetector({ expectedCycles: 3 });
        second.restore(first.snapshot());
        expect(after.map((each) => second.observe(each))).toEqual(after.map((each) => first.observe(each)));
        expect(second.snapshot()).toEqual(first.snapshot());
      }),
      { numRuns: 150 },
    );
  });

  test('[drift.1] no event makes it throw, and scores are never negative or beyond their cap', () => {
    fc.assert(
      fc.property(fc.array(event, { maxLength: 80 }), (events) => {
        const detector = new DriftDetector();
        for (const each of events) {
          for (const score of Object.values(detector.observe(each).scores)) {
            expect(score).toBeGreaterThan(0);
            expect(score).toBeLessThanOrEqual(3);
          }
        }
      }),
      { numRuns: 150 },
    );
  });

  test('[drift.10] memory stops growing: after 100,000 events it is what it was after 20,000', {
    timeout: 120_000,
  }, () => {
    const detector = new DriftDetector({ judge: () => Promise.resolve({ unproductive: 0 }) });
    let early = 0;
    for (let at = 0; at < 100_000; at++) {
      detector.observe(streamEvent(at));
      if (at === 20_000) early = sizeOf(detector);
    }
    expect(sizeOf(detector)).toBeLessThan(early * 1.1);
    expect(early).toBeLessThan(500_000);
  });

  test('[drift.10] one event costs after 60,000 what it cost after 3,000', { timeout: 120_000 }, () => {
    const detector = new DriftDetector();
    const costs: number[] = [];
    let at = 0;
    while (at < 66_000) {
      const begin = process.cpuUsage();
      for (const end = at + 3000; at < end; at++) detector.observe(streamEvent(at));
      const { user, system } = process.cpuUsage(begin);
      costs.push(user + system);
    }
    const best = (list: readonly number[]) => Math.min(...list);
    expect(best(costs.slice(-5))).toBeLessThan(3 * best(costs.slice(1, 6)));
  });
});
