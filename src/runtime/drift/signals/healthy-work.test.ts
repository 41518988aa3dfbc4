import { describe, expect, test } from 'vitest';
import { DriftDetector } from '../drift-detector.ts';
import type { DriftEvent } from '../step/drift-event.ts';

const call = (name: string, input: unknown): DriftEvent => ({ kind: 'call', agent: 'worker', name, input });
const result = (text: string, isError = false): DriftEvent => ({ kind: 'result', role: 'tool', text, isError });
const fails = (text: string) => result(text, true);

const times = <T>(count: number, make: (at: number) => T | readonly T[]): T[] =>
  Array.from({ length: count }, (_, at) => make(at)).flat() as T[];

function watch(events: readonly DriftEvent[]) {
  const detector = new DriftDetector();
  return { alarm: events.map((event) => detector.observe(event)).find(({ status }) => status === 'drifting') };
}

/** A number in the digits of another script. */
const digits = (number: number, zero: number) =>
  String(number * 3).replace(/\d/g, (digit) => String.fromCodePoint(zero + Number(digit)));

test.each([
  ['Arabic', (at: number) => `اكتمل ${digits(at, 0x660)} بالمئة من العمل`],
  ['Hindi', (at: number) => `काम का ${digits(at, 0x966)} प्रतिशत पूरा हुआ`],
  ['full-width', (at: number) => `進捗は${digits(at, 0xff10)}％です。しばらくお待ちください。`],
  ['hidden', (at: number) => `${'a row of the table '.repeat(300)} ${at + 10} ${'a row of the table '.repeat(300)}`],
])('[drift.2] %s digits are numbers, too', (_, text) => {
  const polls = times(30, (at) => [call('fetch', { url: '/job/7' }), result(text(at))]);
  expect(watch(polls).alarm).toBeUndefined();
  expect(watch(times(8, () => polls.slice(0, 2))).alarm?.kinds).toEqual(['loop']);
});

test.each([
  ['a tool that waits', { sleep: call('sleep', { seconds: 30 }), look: call('job_status', { id: 7 }) }],
  ['a shell that sleeps', { look: call('bash', { command: 'sleep 60; tail -1 build.log' }) }],
  ['a tool that waits for something', { look: call('waitForJob', { id: 7 }) }],
])('[drift.2] %s is a wait without a clock', (_, { sleep, look }: { sleep?: DriftEvent; look: DriftEvent }) => {
  const pause = sleep === undefined ? [] : [sleep, result('slept for a while')];
  const events = times(30, () => [...pause, look, result('the job is still queued')]);
  expect(watch(events).alarm).toBeUndefined();
  const plain = events.map((event) => (event === look ? call('waiters', { id: 7 }) : event));
  expect(watch(plain.filter((event) => !pause.includes(event))).alarm).toBeDefined();
});

test('[drift.2] an equal state after a wait is no loop', () => {
  const sleep = [call('sleep', { seconds: 5 }), result('')];
  const look = [{ ...call('job_status', { id: 7 }), stateDigest: 'same' }, result('the job is still queued')];
  expect(watch(times(30, () => [...look, ...sleep])).alarm).toBeUndefined();
  expect(watch(times(3, () => look)).alarm?.kinds).toEqual(['loop']);
});

/** A word that no other number has. */
const unique = (at: number) => [...(at * 7919 + 104_729).toString(26)].map((sign) => `z${sign}`).join('');
const FRAME = 'home search results sorted by name with previous and next and imprint below';

describe('the same call for the next thing', () => {
  test.each([
    ['of a queue', (at: number) => [call('pop', { queue: 'q' }), result(`{"id":"${unique(at)}","type":"order"}`)]],
    ['of a list of tickets', (at: number) => [call('next', {}), result(`${unique(at)} asks about a delivery`)]],
    [
      'of pages with a frame',
      (at: number) => [
        call('click', { button: 'next' }),
        result('clicked'),
        call('read_page', {}),
        result(`${FRAME} ${times(5, (row) => unique(at * 5 + row)).join(' ')}`),
      ],
    ],
  ])('[drift.2] %s is no loop, until nothing comes any more', (_, take: (at: number) => DriftEvent[]) => {
    const taken = times(30, take);
    expect(watch(taken).alarm).toBeUndefined();
    expect(watch([...taken, ...times(8, () => take(29))]).alarm?.kinds).toEqual(['loop']);
  });
});

describe('mending and testing by turns', () => {
  const WORDS = 'left right upper lower first last open closed width height'.split(' ');
  const word = (at: number) => WORDS[(at * 7) % WORDS.length] ?? '';
  const edit = (at: number) => [
    call('edit', { path: 'src/box.ts', old: `${word(at)} = ${at}`, new: `${word(at + 1)} = ${at + 1}` }),
    result('ok'),
  ];
  const mend = (tested: (at: number) => DriftEvent, make = edit) =>
    times(40, (at) => [...make(at), call('shell', 'npm test'), tested(at)]);

  test.each([
    ['failures change', mend((at) => result(`expected ${word(at)} to be ${word(at + 3)}`))],
    ['failures are errors', mend((at) => fails(`expected ${word(at)} to be ${word(at + 3)}`))],
    ['the count of failures changes', mend((at) => fails(`${at % 7} failed, ${30 - (at % 7)} passed`))],
    ['all tests pass each time', mend(() => result('all 12 tests passed'))],
    [
      'both are commands of one shell',
      mend(
        (at) => fails(`assert ${word(at)} == ${word(at + 3)}`),
        (at) => [call('shell', `sed -i 's/${word(at)}/${word(at + 1)}/' src/box${at}.py`), result('')],
      ),
    ],
  ])('[drift.2] short patches and the same test are no drift: %s', (_, events) => {
    expect(watch(events).alarm).toBeUndefined();
  });

  test('[drift.2] the same patch and the same test are a loop', () => {
    const events = mend(
      () => fails('expected left to be right'),
      () => edit(0),
    );
    expect(watch(events).alarm?.index).toBeLessThanOrEqual(11);
  });
});
