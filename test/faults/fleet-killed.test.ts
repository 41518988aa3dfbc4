import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Said, WarmChildren } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

/** Moments at which a process dies; the count is how often it lets the moment pass. */
const MOMENTS = [
  { moment: 'fleet_start', most: 1 },
  { moment: 'plan_created', most: 1 },
  { moment: 'replanned', most: 2 },
  { moment: 'round_completed', most: 4 },
  { moment: 'waiting_for_input', most: 2 },
  { moment: 'inside a question', most: 2 },
  { moment: 'inside the model', most: 12 },
  { moment: 'before a tool', most: 3 },
  { moment: 'inside a tool', most: 3 },
  { moment: 'at any time', most: 120 },
] as const;

/** A kill at these moments may come while a tool is at work. */
const INSIDE = ['inside a tool', 'at any time'];

const children = new WarmChildren('fleeter');

type Stop = { readonly moment: string; readonly count: number };
type OutsideCall = { readonly call: unknown; readonly key: string };

function newPlace() {
  const folder = temporaryFolder();
  return { folder, storage: { kind: 'sqlite', path: join(folder, 'fleet.db') }, side: join(folder, 'outside.log') };
}

/** Tells the next warm process to go on with the research; answers what it said at the end, if it came to it. */
async function live(place: ReturnType<typeof newPlace>, stop?: Stop): Promise<Said | undefined> {
  const child = await children.next();
  child.tell({ ...place, stop });
  const timer = stop?.moment === 'at any time' ? setTimeout(() => void child.kill(), stop.count) : undefined;
  const { signal } = await child.ended;
  clearTimeout(timer);
  const finished = child.said.find((said) => 'finished' in said)?.finished as Said | undefined;
  if (finished === undefined) expect([signal, child.stderr]).toEqual(['SIGKILL', '']);
  return finished;
}

function outside(side: string): OutsideCall[] {
  if (!existsSync(side)) return [];
  return readFileSync(side, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as OutsideCall);
}

/** A call that was in flight may be seen twice, with the same key; a finished one never. */
function findRepeated(calls: readonly OutsideCall[], killsInside: number): string[] {
  const known = new Map<string, string>();
  const faults = calls.flatMap(({ key, call }) => {
    const text = JSON.stringify(call);
    const before = known.get(key) ?? text;
    known.set(key, text);
    return before === text ? [] : [`one key for two calls: ${before} and ${text}`];
  });
  const repeated = calls.length - known.size;
  if (repeated > killsInside) faults.push(`${repeated} calls were repeated, and only ${killsInside} were in flight`);
  return faults;
}

test('[run.6] a fleet killed anywhere ends as if nothing had happened, and no finished call is repeated', async () => {
  const whole = newPlace();
  const expected = await live(whole);
  expect(expected).toMatchObject({ status: 'ended', end: { reason: 'satisfied' }, resets: 1, rounds: 9, findings: [] });
  const report = readFileSync(join(whole.folder, 'report.md'), 'utf8');
  const distinct = new Set(outside(whole.side).map(({ key }) => key)).size;
  const random = seededRandom();
  const failures: string[] = [];
  const kills = trials(100);
  let place = newPlace();
  let killsInside = 0;
  let lives = 0;
  for (let kill = 0; kill < kills; ) {
    const { moment, most } = MOMENTS[random.below(MOMENTS.length)] ?? MOMENTS[0];
    const finished = await live(place, { moment, count: 1 + random.below(most) });
    if (finished === undefined) {
      kill++;
      if (INSIDE.includes(moment)) killsInside++;
      if (kill < kills) continue;
    }
    const ending = finished ?? (await live(place));
    if (JSON.stringify(ending) !== JSON.stringify(expected)) failures.push(`another ending: ${JSON.stringify(ending)}`);
    failures.push(...findRepeated(outside(place.side), killsInside));
    if (new Set(outside(place.side).map(({ key }) => key)).size !== distinct)
      failures.push('another number of tool calls');
    if (readFileSync(join(place.folder, 'report.md'), 'utf8') !== report) failures.push('another report');
    place = newPlace();
    killsInside = 0;
    lives++;
  }
  reportFaults('fleets killed', { trials: kills, failures, notes: `lives=${lives} seed=${random.seed}` });
  expect(failures).toEqual([]);
});
