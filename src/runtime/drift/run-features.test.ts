import { describe, expect, test } from 'vitest';
import { DriftDetector } from './drift-detector.ts';
import type { DriftEvent } from './drift-event.ts';
import type { DriftOptions } from './drift-options.ts';

const NOTHING = 'the job is still queued behind the others';
const page = (number: number) => Array.from({ length: 40 }, (_, at) => `w${number * 1000 + at}`).join(' ');
const act = (name: string, input: unknown, text: string): DriftEvent[] => [
  { kind: 'call', agent: 'worker', name, input },
  { kind: 'result', name, text },
];
const again = () => act('look', { path: 'the same old place in the long corridor' }, NOTHING);
const anew = (number: number) => act(`tool${number}`, { path: page(number + 500) }, page(number));
const times = (count: number, make: (at: number) => DriftEvent[]) => Array.from({ length: count }, (_, at) => make(at));

function featuresOf(events: readonly DriftEvent[], options?: DriftOptions) {
  const detector = new DriftDetector(options);
  for (const event of events) detector.observe(event);
  return detector.features();
}

describe('insistence', () => {
  const repeats = times(4, again);
  const others = times(12, anew);

  test('[U21] it is none where nothing is done twice, and near one where hardly anything else is done', () => {
    expect(featuresOf(others.flat()).insistence).toBeLessThan(0.01);
    expect(featuresOf(times(20, again).flat()).insistence).toBeGreaterThan(0.9);
  });

  test('[U21] the same repetitions count more in a row than scattered among other work', () => {
    const inARow = featuresOf([...others, ...repeats].flat()).insistence;
    const scattered = featuresOf(repeats.flatMap((repeat, at) => [repeat, ...others.slice(at * 3, at * 3 + 3)]).flat());
    expect(inARow).toBeGreaterThan(0.15);
    expect(scattered.insistence).toBeLessThan(inARow / 10);
    expect(scattered.redundancy).toBeGreaterThan(scattered.insistence * 5);
  });

  test('[U21] it is a share: as much again of the same mixture leaves it what it is', () => {
    const mixture = (rounds: number) => times(rounds, (at) => [...again(), ...again(), ...anew(at), ...anew(at + 100)]);
    const [short, long] = [featuresOf(mixture(5).flat()), featuresOf(mixture(20).flat())];
    expect(long.insistence / short.insistence).toBeGreaterThan(0.8);
    expect(long.insistence / short.insistence).toBeLessThan(1.25);
  });

  test('[U21] polling that brings something new each time is none, and calls of polling tools are left out', () => {
    const polling = times(10, (at) => act('look', { path: 'the mailbox of the office' }, page(at)));
    expect(featuresOf(polling.flat()).insistence).toBeLessThan(0.05);
    expect(featuresOf([...repeats, ...others].flat(), { pollingTools: ['look'] })).toEqual(featuresOf(others.flat()));
  });

  test('[U3] a question asked again in other words counts in full, although its answers are new', () => {
    const words = 'how many bridges has the old town of Porto'.split(' ');
    const inOrder = (at: number) => [...words.slice(at), ...words.slice(0, at)].join(' ');
    const asked = times(6, (at) => act('search', { query: inOrder(at) }, page(at)));
    const equal = times(6, (at) => act('search', { query: inOrder(0) }, page(at)));
    expect(featuresOf(asked.flat()).insistence).toBeGreaterThan(0.8);
    expect(featuresOf(equal.flat()).insistence).toBeLessThan(0.05);
  });

  test('[U14] a restored detector goes on with the same features', () => {
    const [first, second] = [new DriftDetector(), new DriftDetector()];
    const events = [...others.slice(0, 3), ...repeats, ...others.slice(3)].flat();
    for (const event of events.slice(0, 11)) first.observe(event);
    second.restore(JSON.parse(JSON.stringify(first.snapshot())));
    for (const event of events.slice(11)) for (const detector of [first, second]) detector.observe(event);
    expect(second.features()).toEqual(first.features());
    expect(second.features().insistence).toBeGreaterThan(0);
  });
});
