import { describe, expect, test } from 'vitest';
import { DriftDetector } from '../drift-detector.ts';
import type { DriftEvent } from '../step/drift-event.ts';
import { SIGNAL_NAMES } from './signal-types.ts';

const say = (text: string, agent: string): DriftEvent => ({ kind: 'message', agent, text });

/** Text that shares no run of words with any other number's. */
const page = (number: number) => Array.from({ length: 40 }, (_, at) => `w${number * 1000 + at}`).join(' ');

const times = <T>(count: number, make: (at: number) => T | readonly T[]): T[] =>
  Array.from({ length: count }, (_, at) => make(at)).flat() as T[];

/** Watches with the signal for stalls alone. */
function watch(events: readonly DriftEvent[]) {
  const detector = new DriftDetector({ without: SIGNAL_NAMES.filter((name) => name !== 'stall') });
  const seen = events.map((event) => detector.observe(event));
  return { alarm: seen.find(({ status }) => status === 'drifting'), last: seen.at(-1) };
}

describe('the talk of a team whose work one of them has planned', () => {
  const plan = {
    kind: 'plan',
    agent: 'lead',
    text: 'First find the price list of the museum on its website, then add up the fees of a school class, then answer.',
  };
  const orders = [
    'Find the price list of the museum on its website.',
    'Add up the fees of a school class, then answer.',
  ];
  const detours = [
    'Maybe some travel blog mentions tickets somewhere.',
    'Perhaps telephone them tomorrow morning instead?',
  ];
  const same = (at: number) =>
    `The browser shows ${['only', 'just'][at % 2]} the opening hours of the museum, as it did.`;
  const team = (order: (at: number) => string, report: (at: number) => string, rounds = 6) =>
    times(rounds, (at) => [say(order(at), 'lead'), say(report(at), 'surfer')]);
  const detour = (at: number) => detours[at % 2] ?? '';

  test('[drift.6] orders that leave the plan and reports that repeat each other are a stall of who planned it', () => {
    const { alarm } = watch([plan, ...team(detour, same)]);
    expect(alarm).toMatchObject({ index: 6, kinds: ['stall'], agent: 'lead' });
    expect(alarm?.evidence.at(-1)?.reason).toMatch(
      /^\d+ % of what lead orders is in neither task nor plan, and reports/,
    );
  });

  test.each([
    [
      'orders after the plan, though reports repeat half of each other',
      (at: number) => orders[at % 2] ?? '',
      (at: number) => `${page(0)} ${page(at + 1)}`,
    ],
    ['orders that leave it, as long as reports bring something new', detour, page],
    ['reports that are the same but for a number', detour, (at: number) => `Invoice ${at} was sent, paid and filed.`],
  ])('[drift.6] %s are none', (_name, order, report) => {
    expect(watch([plan, ...team(order, report, 20)]).last?.status).toBe('healthy');
  });

  test('[drift.6] another plan sets it going again, and so does a person who speaks', () => {
    const person = { kind: 'message', role: 'user', text: 'Then look for the fees of the zoo.' };
    for (const news of [{ ...plan, text: 'Ask the zoo.' }, person]) {
      expect(watch([plan, ...team(detour, same), news]).last?.status).toBe('healthy');
      expect(watch([plan, ...team(detour, same), news, ...team(detour, same)]).last?.kinds).toEqual(['stall']);
    }
  });

  test('[drift.6] a planner without a team is judged by its own words, and so are those whose planner is silent', () => {
    expect(watch([plan, ...times(6, (at) => say(same(at), 'lead'))]).alarm?.agent).toBe('lead');
    expect(watch([plan, ...times(6, (at) => say(same(at), 'surfer'))]).alarm?.agent).toBe('surfer');
  });
});
