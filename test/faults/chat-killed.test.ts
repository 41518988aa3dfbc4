import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Said, WarmChildren } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

const ROUNDS = 39;
/** Moments at which a process dies; the count is how often it lets the moment pass, so that every life moves on. */
const MOMENTS = [
  { moment: 'message_appended', most: 2 },
  { moment: 'speaker_reply_generated', most: 2 },
  { moment: 'inside the model', most: 4 },
  { moment: 'before the tool', most: 2 },
  { moment: 'inside the tool', most: 2 },
] as const;

const children = new WarmChildren('chatter');

type Stop = { readonly moment: string; readonly count: number };

function newPlace() {
  const folder = temporaryFolder();
  return { storage: { kind: 'sqlite', path: join(folder, 'chat.db') }, side: join(folder, 'outside.log') };
}

/** Tells the next warm process to go on with a conversation; answers what it said at the end, if it came to it. */
async function live(place: ReturnType<typeof newPlace>, stop?: Stop): Promise<Said | undefined> {
  const child = await children.next();
  child.tell({ ...place, rounds: ROUNDS, stop });
  const { signal } = await child.ended;
  expect([signal, child.stderr]).toEqual([child.said.some(({ finished }) => finished) ? null : 'SIGKILL', '']);
  return child.said.find(({ finished }) => finished)?.finished as Said | undefined;
}

function outside(side: string): { n: number; key: string; attempt: number }[] {
  if (!existsSync(side)) return [];
  return readFileSync(side, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { n: number; key: string; attempt: number });
}

/** A call that was in flight may be seen twice, with the same key; a finished one never. */
function findRepeated(calls: readonly { n: number; key: string; attempt: number }[], killsInside: number): string[] {
  const inputs = new Map<string, number>();
  const faults = calls
    .filter(({ key, n }) => (inputs.get(key) ?? n) !== n || !inputs.set(key, n))
    .map((call) => `one key for two calls: ${JSON.stringify(call)}`);
  const repeated = calls.length - inputs.size;
  if (repeated > killsInside) faults.push(`${repeated} calls were repeated, and only ${killsInside} were in flight`);
  return faults;
}

test('[run.6] a conversation killed anywhere ends as if nothing had happened, and no finished call is repeated', async () => {
  const whole = newPlace();
  const expected = await live(whole);
  expect(expected?.messages).toHaveLength(ROUNDS + 1);
  const random = seededRandom();
  const failures: string[] = [];
  const kills = trials(200);
  let place = newPlace();
  let killsInside = 0;
  let lives = 0;
  for (let kill = 0; kill < kills; ) {
    const { moment, most } = MOMENTS[random.below(MOMENTS.length)] ?? MOMENTS[0];
    const finished = await live(place, { moment, count: 1 + random.below(most) });
    if (finished === undefined) {
      kill++;
      if (moment === 'inside the tool') killsInside++;
      if (kill < kills) continue;
    }
    const ending = finished ?? (await live(place));
    if (JSON.stringify(ending) !== JSON.stringify(expected)) failures.push(`another ending: ${JSON.stringify(ending)}`);
    failures.push(...findRepeated(outside(place.side), killsInside));
    if (new Set(outside(place.side).map(({ key }) => key)).size !== outside(whole.side).length)
      failures.push('another number of tool calls');
    place = newPlace();
    killsInside = 0;
    lives++;
  }
  reportFaults('conversations killed', { trials: kills, failures, notes: `lives=${lives} seed=${random.seed}` });
  expect(failures).toEqual([]);
});
