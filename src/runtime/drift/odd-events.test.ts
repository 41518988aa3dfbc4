import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { LATER } from '../../../test/support/later.ts';
import { drawn } from '../../../test/support/trials.ts';
import { DriftDetector } from './drift-detector.ts';
import { type DriftEvent, leavesOf, readEvent } from './step/drift-event.ts';

const explode = (): never => {
  throw new Error('Not to be read.');
};
const revoked = (target: object): unknown => {
  const { proxy, revoke } = Proxy.revocable(target, {});
  revoke();
  return proxy;
};
const withGetter = (field: string): object => Object.defineProperty({}, field, { enumerable: true, get: explode });
const asEvent = (value: unknown) => value as DriftEvent;

/** What is no event at all, or throws as soon as it is looked at. */
const UNREADABLE: readonly [name: string, event: unknown][] = [
  ['null', null],
  ['undefined', undefined],
  ['a number', 5],
  ['a text', 'call'],
  ['a bigint', 5n],
  ['a symbol', Symbol('event')],
  ['a function', explode],
  ['a list', []],
  ['a getter that throws', withGetter('text')],
  ['a revoked proxy', revoked({})],
  ['a proxy that throws', new Proxy({}, { get: explode })],
];

/** What can be in an event and throws when it is looked at. */
const UNREADABLE_PARTS: readonly [name: string, part: unknown][] = [
  ['a getter that throws', { path: 'a.ts', rest: withGetter('deep') }],
  ['a revoked proxy', { list: [1, revoked({})] }],
  ['a revoked list', revoked([])],
  ['a revoked function', revoked(() => 1)],
  ['a toJSON that throws', Object.defineProperty({}, 'toJSON', { value: explode })],
  ['a toString that throws', Object.assign(() => 1, { toString: explode })],
];

const FIELDS = ['agent', 'role', 'name', 'callId', 'input', 'output', 'text', 'at', 'contextTokens', 'isError'];

function oddOf(value: unknown): unknown {
  const isOdd = typeof value === 'object' && value !== null && 'nth' in value && typeof value.nth === 'number';
  return isOdd ? UNREADABLE_PARTS[Number(value.nth)]?.[1] : value;
}

/** A value whose bottom, reached 2^levels times if nothing stops it, counts how often it is read. */
function lattice(levels: number): { value: unknown; reads: () => number } {
  let count = 0;
  const bottom = {
    get leaf() {
      count++;
      return null;
    },
  };
  let value: unknown = bottom;
  for (let level = 0; level < levels; level++) value = { left: value, right: value };
  return { value, reads: () => count };
}

describe('events that cannot be read', () => {
  test.each(UNREADABLE)('[drift.1] %s counts as an empty event', async (_name, event) => {
    const judge = () => Promise.resolve({ unproductive: 0.5 });
    const empty = new DriftDetector({ judge }).observe({});
    const detector = new DriftDetector({ judge });
    expect(detector.observe(asEvent(event))).toEqual(empty);
    expect(await detector.assess(asEvent(event))).toEqual({ ...empty, index: 1 });
    expect(detector.snapshot().window).toEqual([{}, {}]);
    expect(readEvent(event, 0)).toEqual(readEvent({}, 0));
  });

  test.each(UNREADABLE_PARTS)('[drift.1] an input or output with %s counts as absent', (_name, part) => {
    expect(leavesOf(part)).toEqual([]);
    const events = [
      { kind: 'call', name: 'x', input: part, stateDigest: 's1' },
      { kind: 'result', name: 'x', output: part },
      { kind: 'finish', output: part },
    ];
    const detector = new DriftDetector({ judge: () => Promise.resolve({ unproductive: 0.5 }) });
    for (const event of [...events, ...events, ...events]) {
      expect(detector.observe(event).evidence.every(({ signal }) => signal !== 'state-recurrence')).toBe(true);
    }
  });

  test('[drift.1] no event whatever makes it throw, and what it then remembers can be saved and taken up', async () => {
    const anything = fc.anything({
      withBigInt: true,
      withBoxedValues: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withTypedArray: true,
      withNullPrototype: true,
      withSparseArray: true,
    });
    // By number, as the generator would look at them itself.
    const odd = fc.nat(UNREADABLE_PARTS.length - 1).map((nth) => ({ nth }));
    const kind = fc.constantFrom('goal', 'plan', 'message', 'call', 'result', 'error', 'cycle', 'finish');
    const field = fc.constantFrom(...FIELDS);
    const recipe = fc.tuple(kind, fc.dictionary(field, fc.oneof(anything, odd, fc.double())));
    const build = ([of, fields]: [string, Record<string, unknown>]) => ({
      kind: of,
      stateDigest: 's',
      ...Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, oddOf(value)])),
    });
    const options = { judge: () => Promise.resolve({ unproductive: 0.5 }), expectedCycles: 1 };
    await fc.assert(
      fc.asyncProperty(fc.array(anything), fc.array(recipe, { maxLength: 30 }), async (values, recipes) => {
        const events = [...values, ...recipes.map(build)];
        const detector = new DriftDetector(options);
        for (const each of events) await detector.assess(asEvent(each));
        const copy = new DriftDetector(options);
        copy.restore(JSON.parse(JSON.stringify(detector.snapshot())));
        expect(copy.observe({ kind: 'cycle' })).toEqual(detector.observe({ kind: 'cycle' }));
      }),
      drawn(1_500),
    );
  });
});

describe('events that hold too much', () => {
  const long = (seed: number) => `${'long'.repeat(25_000)}${seed}`;

  test(
    '[drift.10] long names, agents, ids and digests are remembered by their beginning, length and digest',
    LATER,
    () => {
      const detector = new DriftDetector({ judge: () => Promise.resolve({ unproductive: 0.5 }) });
      for (let at = 0; at < 70; at++) {
        const names = { agent: long(at % 60), role: long(at), name: long(at % 7), callId: long(at) };
        detector.observe({ kind: 'goal', ...names, text: long(at) });
        detector.observe({ kind: 'call', ...names, input: long(at % 3), stateDigest: long(at % 5) });
        if (at % 20 > 0) detector.observe({ kind: 'result', callId: long(at), output: long(1), isError: at % 3 === 0 });
      }
      expect(JSON.stringify(detector.snapshot()).length).toBeLessThan(300_000);
      expect(readEvent({ agent: long(1) }, 0).agent).toMatch(/^(long){16}… \(100001 characters, [\w-]{22}\)$/);
      const short = 'x'.repeat(128);
      expect(readEvent({ name: short }, 0).name).toBe(short);
    },
  );

  test('[drift.10] different long names stay different, and equal ones equal', () => {
    const ask = (at: number): DriftEvent[] => [
      { kind: 'call', agent: long(0), name: long(at), input: 'the same', callId: long(at) },
      { kind: 'result', callId: long(at), text: 'there is nothing to see here' },
    ];
    const alarm = (events: readonly DriftEvent[], pollingTools: readonly string[] = []) => {
      const detector = new DriftDetector({ pollingTools, without: ['stall'] });
      return events.map((event) => detector.observe(event)).some(({ status }) => status === 'drifting');
    };
    const same = [1, 1, 1, 1, 1].flatMap(ask);
    expect(alarm(same)).toBe(true);
    expect(alarm([1, 2, 3, 4, 5].flatMap(ask))).toBe(false);
    expect(alarm(same, [long(1)])).toBe(false);
  });

  test('[drift.10] the reason a judge gives, and the goal it is told, are cut', async () => {
    const judge = () => Promise.resolve({ unproductive: 0.6, reason: long(1) });
    const detector = new DriftDetector({ judge, goal: long(2) });
    for (let at = 0; at < 8; at++) {
      await detector.assess({ kind: 'call', name: 'look', input: 'there' });
      await detector.assess({ kind: 'result', text: 'there is nothing to see here' });
    }
    const { ledger, goal } = detector.snapshot();
    expect(ledger.evidence.some(({ signal }) => signal === 'judge')).toBe(true);
    expect(Math.max(...ledger.evidence.map(({ reason }) => reason.length))).toBeLessThanOrEqual(2000);
    expect(goal).toHaveLength(4000);
  });

  test.each(['input', 'output'])(
    '[drift.10] an %s whose parts are shared many times over is read in bounded time',
    (field) => {
      const { value, reads } = lattice(22);
      const detector = new DriftDetector({ judge: () => Promise.resolve({ unproductive: 0.5 }) });
      detector.observe({ kind: 'call', name: 'x', stateDigest: 's', [field]: value });
      expect(reads()).toBeLessThan(100_000);
    },
  );

  test('[drift.10] so is one that holds itself, one that is very wide, and one that is very deep', () => {
    const ring: unknown[] = [];
    for (let at = 0; at < 20; at++) ring.push(ring);
    let reads = 0;
    const wide = new Proxy(
      Array.from({ length: 1_000_000 }, () => null),
      {
        get: (target, key) => {
          reads++;
          return Reflect.get(target, key);
        },
      },
    );
    let deep: unknown = 'bottom';
    for (let level = 0; level < 100_000; level++) deep = [deep];
    const detector = new DriftDetector();
    const startedAt = process.cpuUsage();
    for (const input of [ring, wide, deep, new Uint8Array(3_000_000)]) {
      detector.observe({ kind: 'call', name: 'x', stateDigest: 's', input });
    }
    expect(reads).toBeLessThan(100_000);
    // The ring alone took ten seconds when its 20^6 parts were all visited.
    expect(process.cpuUsage(startedAt).user / 1e6).toBeLessThan(3);
  });

  test('[drift.10] texts beyond what a text can hold are cut', () => {
    const page = 'word '.repeat(2_000_000);
    const output = Array.from({ length: 300 }, () => page);
    expect(readEvent({ kind: 'result', output }, 0).text.length).toBeLessThan(4_001_000);
  });
});
