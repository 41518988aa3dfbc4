import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { type Child, type Said, WarmChildren } from '../support/child.ts';
import { IS_FULL, reportFaults, seededRandom } from '../support/fault-report.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

type Kind = 'sqlite' | 'file';
type Mode = 'never saved' | 'saved, from the head' | 'saved, from the start';
/** Where a process dies; `durable` is after the result was stored and before `step()` returned. */
type Point = 'before' | 'inside' | 'durable' | 'after' | 'saved';
type Place = { readonly kind: Kind; readonly path: string; readonly side: string };

const children = new WarmChildren('stepper');

const POINTS: readonly [Point, ...Point[]] = ['before', 'inside', 'durable', 'after'];

function newPlace(kind: Kind): Place {
  const folder = temporaryFolder();
  return { kind, path: join(folder, kind === 'sqlite' ? 'steps.db' : 'steps'), side: join(folder, 'outside.log') };
}

/** Everything the processes of one life said, in order, and what the outside saw. */
class Life {
  readonly heard: Said[] = [];
  readonly #place: Place;

  constructor(place: Place) {
    this.#place = place;
  }

  tell(child: Child, options: { steps: number; mode: Mode; stop?: { step: number; point: Point } }): void {
    const { kind, path, side } = this.#place;
    child.tell({ storage: { kind, path }, side, ...options });
  }

  add(child: Child): void {
    this.heard.push(...child.said);
    if (child.stderr !== '') this.heard.push({ stderr: child.stderr });
  }

  get outside(): Said[] {
    if (!existsSync(this.#place.side)) return [];
    return readFileSync(this.#place.side, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Said);
  }

  attemptsOf(step: number): unknown[] {
    return this.heard.filter(({ entered }) => entered === step).map(({ attempt }) => attempt);
  }

  effectsOf(step: number): unknown[] {
    return this.outside.filter((line) => line.step === step).map(({ attempt }) => attempt);
  }

  /** What breaks the promise, whatever the point of death was. */
  findFaults(): string[] {
    const faults: string[] = [];
    const finished = new Set<unknown>();
    const last = new Map<unknown, { attempt: number; key: unknown }>();
    for (const { entered, attempt, key, returned, square, stderr } of this.heard) {
      if (stderr !== undefined) faults.push(`stderr: ${String(stderr)}`);
      if (returned !== undefined) {
        finished.add(returned);
        if (square !== Number(returned) ** 2) faults.push(`step ${returned} returned ${square}`);
      }
      if (entered === undefined) continue;
      if (finished.has(entered)) faults.push(`step ${entered} ran again after it had finished`);
      const before = last.get(entered);
      if (before !== undefined && before.key !== key) faults.push(`step ${entered} got another idempotency key`);
      if (Number(attempt) <= (before?.attempt ?? 0)) faults.push(`step ${entered} is attempt ${attempt} again`);
      last.set(entered, { attempt: Number(attempt), key });
    }
    return faults;
  }

  async findDamage(): Promise<string[]> {
    const { kind, path } = this.#place;
    const storage = kind === 'sqlite' ? new SqliteCheckpointStorage({ path }) : new FileCheckpointStorage({ path });
    const manager = new CheckpointManager({ storage });
    const { findings, effects } = await manager.verify();
    await manager.close();
    expect(effects).toBeGreaterThan(0);
    return findings.map(({ subject, problem }) => `${subject}: ${problem}`);
  }
}

/** How often a step runs, and how often the outside sees it, if every process dies once at this point of it. */
function expectedAttempts(point: Point): { attempts: number[]; effects: number[] } {
  if (point === 'before') return { attempts: [1, 2], effects: [2] };
  if (point === 'inside') return { attempts: [1, 2], effects: [1, 2] };
  return { attempts: [1], effects: [1] };
}

/** One life: a process for each boundary, killed there, and one that finishes. Answers the faults of each boundary. */
async function killAtEveryBoundary(options: {
  kind: Kind;
  mode: Mode;
  steps: number;
  pointAt: (step: number) => Point;
}): Promise<string[]> {
  const { kind, mode, pointAt, steps } = options;
  const life = new Life(newPlace(kind));
  const faults: string[] = [];
  for (let step = 0; step <= steps; step++) {
    const child = await children.next();
    life.tell(child, { steps, mode, ...(step < steps && { stop: { step, point: pointAt(step) } }) });
    const { signal } = await child.ended;
    if ((signal === 'SIGKILL') !== step < steps)
      faults.push(`step ${step}: the process ended with ${signal} ${child.stderr}`);
    life.add(child);
  }
  for (let step = 0; step < steps; step++) {
    const found = { attempts: life.attemptsOf(step), effects: life.effectsOf(step) };
    if (JSON.stringify(found) !== JSON.stringify(expectedAttempts(pointAt(step))))
      faults.push(`step ${step}, ${pointAt(step)}: ${JSON.stringify(found)}`);
  }
  if (life.heard.at(-1)?.finished !== true) faults.push('the last process did not finish');
  return [...faults, ...life.findFaults(), ...(await life.findDamage())];
}

describe.each<{ kind: Kind; mode: Mode; steps: number; points: readonly [Point, ...Point[]] }>([
  { kind: 'sqlite', mode: 'never saved', steps: trials(200), points: POINTS },
  { kind: 'sqlite', mode: 'saved, from the head', steps: trials(200), points: [...POINTS, 'saved'] },
  { kind: 'sqlite', mode: 'saved, from the start', steps: trials(50), points: ['inside', 'saved'] },
  { kind: 'file', mode: 'never saved', steps: trials(40), points: ['inside', 'after'] },
  { kind: 'file', mode: 'saved, from the head', steps: trials(40), points: ['before', 'durable', 'saved'] },
])('$steps steps on $kind, $mode', ({ kind, mode, steps, points }) => {
  // In full every step is killed at every point; the short run takes the points in turn.
  test.each(IS_FULL ? points.map((point) => [point]) : [points])(
    '[effect.1] killed at every step: no finished step runs twice, one in flight keeps its key (%s)',
    async (...chosen) => {
      const pointAt = (step: number): Point => chosen[step % chosen.length] ?? 'after';
      const faults = await killAtEveryBoundary({ kind, mode, pointAt, steps });
      reportFaults(`steps ${kind} (${mode}) killed ${chosen.join(', ')}`, { trials: steps, failures: faults });
      expect(faults).toEqual([]);
    },
  );
});

describe.each<[Kind, number]>([
  ['sqlite', trials(200)],
  ['file', trials(60)],
])('steps on %s, killed at any moment', (kind, kills) => {
  test('[effect.1] no finished step runs twice', async () => {
    const random = seededRandom();
    const faults: string[] = [];
    for (let done = 0; done < kills; ) {
      const life = new Life(newPlace(kind));
      const mode = random.pick<Mode>(['never saved', 'saved, from the head', 'saved, from the start']);
      const steps = 10 + random.below(30);
      for (let isFinished = false; !isFinished; done++) {
        const child = await children.next();
        life.tell(child, { steps, mode });
        await child.heard('open');
        // With enough kills it comes to its end: on a busy machine the last life would take many more.
        await Promise.race([...(done < kills ? [sleep(random.below(120))] : []), child.ended]);
        await child.kill();
        life.add(child);
        isFinished = child.said.at(-1)?.finished === true;
      }
      faults.push(...life.findFaults(), ...(await life.findDamage()));
    }
    reportFaults(`steps ${kind} killed at random moments`, {
      trials: kills,
      failures: faults,
      notes: `seed=${random.seed}`,
    });
    expect(faults).toEqual([]);
  });
});
