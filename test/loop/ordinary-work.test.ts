import { describe, expect, test } from 'vitest';
import { type DriftAssessment, DriftDetector, type DriftEvent } from '../../src/runtime/drift/index.ts';
import { LATER } from '../support/later.ts';
import { trials } from '../support/trials.ts';

const MINUTE = 60_000;
const TURNS = trials(100_000);
const GOAL = 'Keep the orders of the shop moving and the customers informed';

const PARTS = 'left right upper lower first last open closed width height'.split(' ');

/** Numbers that look random and are the same every time. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Events as an agent loop shows them: each with its job and its time. */
class Week {
  readonly #below = numbersFrom(21);
  #atMs = 0;
  #job = '';

  /** One turn of ordinary work. */
  turn(number: number): DriftEvent[] {
    this.#job = `message ${number}`;
    this.#atMs += MINUTE;
    const kinds = [
      this.#lookUp,
      this.#retry,
      this.#outage,
      this.#poll,
      this.#wait,
      this.#page,
      this.#batch,
      this.#check,
      this.#mend,
      this.#sleep,
      this.#backOff,
      this.#fillIn,
    ];
    const act = kinds[this.#below(kinds.length)] ?? this.#lookUp;
    const asked = this.#event({
      kind: 'message',
      role: 'user',
      agent: 'customer',
      text: `What about order ${number}?`,
    });
    return [asked, ...act.call(this, number), this.#event({ kind: 'cycle' })];
  }

  call(name: string, input: unknown, text: string): DriftEvent[] {
    this.#atMs += 200;
    return [this.#event({ kind: 'call', name, input }), this.#event({ kind: 'result', name, text })];
  }

  #fail(name: string, input: unknown, text: string): DriftEvent[] {
    return this.call(name, input, text).map((event) => ({ ...event, isError: event.kind === 'result' }));
  }

  #event(event: DriftEvent): DriftEvent {
    return { agent: 'clerk', job: this.#job, at: this.#atMs, ...event };
  }

  #lookUp(number: number): DriftEvent[] {
    const rules = this.call('rules', {}, 'Orders are sent within two days; the customers pay for the parcel.');
    return [...rules, ...this.call('order', { id: number }, `order ${number}: ${this.#below(9)} books, shipped`)];
  }

  #retry(number: number): DriftEvent[] {
    const failed = this.#fail('pay', { order: number }, '503 service unavailable');
    return [...failed, ...failed.slice(0, this.#below(2) * 2), ...this.call('pay', { order: number }, 'paid')];
  }

  #outage(number: number): DriftEvent[] {
    return this.#fail('mail', { order: number }, `connection refused after ${this.#below(900)} ms`);
  }

  #poll(number: number): DriftEvent[] {
    const first = this.#below(5);
    return Array.from({ length: 12 }, (_, at) =>
      this.call('progress', { export: number }, `the export is running, ${first + at * 8} percent are written`),
    ).flat();
  }

  #wait(number: number): DriftEvent[] {
    return Array.from({ length: 10 }, () => {
      this.#atMs += 5 * MINUTE;
      return this.call('status', { parcel: number }, 'the parcel waits for the carrier');
    }).flat();
  }

  #page(number: number): DriftEvent[] {
    return Array.from({ length: 15 }, (_, at) =>
      this.call('list', { of: `orders ${number}`, page: at + 1 }, `orders ${number * 15 + at}, more on the next page`),
    ).flat();
  }

  #batch(number: number): DriftEvent[] {
    return Array.from({ length: 20 }, (_, at) => this.call('label', { parcel: `p${number}-${at}` }, 'ok')).flat();
  }

  #check(number: number): DriftEvent[] {
    return Array.from({ length: 4 }, (_, at) => [
      ...this.call('edit', { path: `order-${number}.txt`, text: this.#words(number * 10 + at) }, 'saved'),
      ...this.call('validate', { path: `order-${number}.txt` }, 'one line is not valid yet'),
    ]).flat();
  }

  /** Small patches, and the same test after each. */
  #mend(number: number): DriftEvent[] {
    const part = () => PARTS[this.#below(PARTS.length)] ?? '';
    return Array.from({ length: 12 }, (_, at) => {
      const failure = `expected ${part()} of the box to be ${part()}`;
      const patch = { path: `src/box${number % 3}.ts`, old: `${part()} = ${at}`, new: `${part()} = ${at + 1}` };
      const test = at % 3 === 0 ? this.call('shell', 'npm test', failure) : this.#fail('shell', 'npm test', failure);
      return [...this.call('edit', patch, 'ok'), ...test];
    }).flat();
  }

  #sleep(number: number): DriftEvent[] {
    return Array.from({ length: 10 }, () => [
      ...this.call('sleep', { seconds: 20 }, 'slept'),
      ...this.call('build', { number }, 'the build is still running'),
    ]).flat();
  }

  #backOff(number: number): DriftEvent[] {
    const tries = Array.from({ length: 4 }, (_, at) =>
      this.#fail('post', { order: number }, `429 too many requests, retry after ${2 ** at} s`),
    );
    return [...tries.flat(), ...this.call('post', { order: number }, 'created')];
  }

  /** What is typed differs, the key in between does not. */
  #fillIn(number: number): DriftEvent[] {
    return Array.from({ length: 15 }, (_, at) => [
      ...this.call('type', { text: `line ${at} of order ${number}` }, 'ok'),
      ...this.call('press', { key: 'Tab' }, 'ok'),
    ]).flat();
  }

  #words(seed: number): string {
    return Array.from({ length: 30 }, (_, at) => `w${seed}x${at}`).join(' ');
  }
}

function begin(turns: number) {
  const detector = new DriftDetector();
  const week = new Week();
  detector.observe({ kind: 'goal', agent: 'clerk', text: GOAL });
  const alarms: DriftAssessment[] = [];
  for (let number = 0; number < turns; number++)
    for (const event of week.turn(number)) {
      const assessment = detector.observe(event);
      if (assessment.status === 'drifting') alarms.push(assessment);
    }
  return { detector, week, alarms };
}

test(`[drift.2] ${TURNS} turns of ordinary work raise no alarm`, LATER, () => {
  const { alarms } = begin(TURNS);
  expect(alarms.slice(0, 3).map(({ index, summary }) => `${index}: ${summary}`)).toEqual([]);
});

describe('a fault in the middle of ordinary work is found in time', () => {
  /** How many units of the fault it takes. */
  function found(make: (week: Week, at: number) => readonly DriftEvent[]): {
    readonly after: number;
    readonly kinds: unknown;
  } {
    const { detector, week } = begin(500);
    for (let at = 0; at < 100; at++)
      for (const event of make(week, at)) {
        const { status, kinds } = detector.observe({ agent: 'clerk', ...event, job: 'message x' });
        if (status === 'drifting') return { after: at + 1, kinds };
      }
    return { after: Number.POSITIVE_INFINITY, kinds: [] };
  }

  test('[drift.2] a loop at the 4th call', () => {
    const fault = found((week) => week.call('find', { key: 'x' }, 'there is no such key in the list'));
    expect(fault).toEqual({ after: 4, kinds: ['loop'] });
  });

  test('[drift.4] an alternation at the 6th call', () => {
    const fault = found((week, at) =>
      week.call(at % 2 === 0 ? 'open' : 'close', 'a', `the door ${at % 2} is as it was`),
    );
    expect(fault.after).toBeLessThanOrEqual(6);
    expect(fault.kinds).toContain('loop');
  });

  test('[drift.7] a stall within 16 calls', () => {
    const fault = found((week, at) =>
      week.call('script', `look through all the rows in yet another way ${'and again '.repeat(at % 4)}`, 'found none'),
    );
    expect(fault.after).toBeLessThanOrEqual(16);
  });

  test('[drift.7] silence within 9 turns', () => {
    const fault = found(() => [{ kind: 'cycle', stateDigest: 'the same' }]);
    expect(fault.after).toBeLessThanOrEqual(9);
    expect(fault.kinds).toEqual(['stall']);
  });

  test('[drift.8] a change of goal within 40 messages', () => {
    const fault = found((_, at) => [
      {
        kind: 'message',
        text: `Caravans carried porcelain over mountains in year ${at}, and silver, salt, silk${at}x`,
      },
    ]);
    expect(fault.after).toBeLessThanOrEqual(40);
  });
});
