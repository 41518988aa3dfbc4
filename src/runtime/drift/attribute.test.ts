import { describe, expect, test } from 'vitest';
import { attribute } from './attribute.ts';
import type { DriftEvent } from './drift-event.ts';

const goal: DriftEvent = { kind: 'goal', role: 'user', text: 'Book the cheapest flight.' };
const say = (agent: string, text: string): DriftEvent => ({ kind: 'message', agent, text });
const call = (name: string, input: unknown = {}): DriftEvent => ({ kind: 'call', agent: 'clerk', name, input });
const result = (text: string): DriftEvent => ({ kind: 'result', role: 'tool', text });

describe('attribute', () => {
  test('[U18] in a dialogue it names the last call that changed something', () => {
    const guest = (text: string): DriftEvent => ({ kind: 'message', agent: 'guest', role: 'user', text });
    const found = attribute([
      goal,
      say('clerk', 'Which day?'),
      guest('Monday, please.'),
      call('search_flights', { day: 'Monday' }),
      result('LX1 120, LX2 90'),
      say('clerk', 'LX2 costs 90.'),
      guest('Take it.'),
      call('book_flight', { flight: 'LX1' }),
      result('booked'),
      call('get_booking'),
      result('LX1'),
      say('clerk', 'Done.'),
    ]);
    expect(found).toMatchObject({ step: 7, agent: 'clerk' });
    expect(found?.reason).toContain('changed something');
  });

  test('[U18] under a director it names a worker, early but not the very first', () => {
    const events = [goal];
    for (let at = 0; at < 8; at++) {
      events.push({ kind: 'thought', agent: 'lead', text: `Round ${at}: who is next?` }, say('lead', `Do part ${at}.`));
      events.push(say('surfer', `Part ${at} shows ${at * 7} results.`));
    }
    const found = attribute(events);
    expect(found?.agent).toBe('surfer');
    expect(found?.candidates.every(({ agent }) => agent === 'surfer')).toBe(true);
    expect(found?.step).toBe(6);
  });

  test('[U18] otherwise it names the first attempt at the task', () => {
    const found = attribute([
      goal,
      say('planner', 'Let us begin.'),
      say('coder', 'Run:\n```\nfly()\n```'),
      result('?'),
    ]);
    expect(found).toMatchObject({ step: 2, agent: 'coder' });
  });

  test('[U18] weights of the candidates fall, and do not pass 1', () => {
    const acts = Array.from({ length: 9 }, (_, at) => [call(`step${at}`, { at }), result(`${at} done well`)]).flat();
    const found = attribute([goal, ...acts]);
    const weights = found?.candidates.map(({ weight }) => weight) ?? [];
    expect(weights).toEqual(weights.toSorted((a, b) => b - a));
    expect(weights.reduce((sum, weight) => sum + weight, 0)).toBeLessThanOrEqual(1);
    expect(weights).toHaveLength(5);
  });

  test('[U18] a run in which no agent acts has no decisive step', () => {
    expect(attribute([])).toBeUndefined();
    expect(attribute([goal, result('nothing')])).toBeUndefined();
  });
});
