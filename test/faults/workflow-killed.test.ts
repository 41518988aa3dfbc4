import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { parseWorkflow } from '../../src/runtime/workflow/index.ts';
import { FileCheckpointStorage } from '../../src/storage/file/file-storage.ts';
import { SqliteCheckpointStorage } from '../../src/storage/sqlite/sqlite-storage.ts';
import { type Child, type Said, WarmChildren } from '../support/child.ts';
import { reportFaults, seededRandom } from '../support/fault-report.ts';
import { temporaryFolder } from '../support/storages.ts';
import { trials } from '../support/trials.ts';

type Example = 'refund' | 'pipeline';
type Kind = 'sqlite' | 'file';
type Line = { readonly step: string; readonly attempt: number; readonly key: string };

const children = new WarmChildren('workflow-runner');

/** What each call takes: long enough that kills hit calls as well as what lies between them. */
const PACE_MS = 4;

/** The steps of both workflows with what they need, by path. */
const NEEDS = new Map(
  (['refund', 'pipeline', 'cleaning'] as const).flatMap((name) => {
    const path = join(import.meta.dirname, '..', '..', 'examples', 'workflow', `${name}.yaml`);
    const { steps } = parseWorkflow(readFileSync(path, 'utf8'), { source: path });
    const prefix = name === 'cleaning' ? 'clean/' : '';
    return steps.map(({ id, needs }) => [`${prefix}${id}`, needs.map((need) => `${prefix}${need}`)] as const);
  }),
);

/** Whether a step can only begin after another has ended; turns of a `repeat` come one after the other. */
function comesAfter(later: string, earlier: string): boolean {
  const [laterStep, laterTurn] = splitTurn(later);
  const [earlierStep, earlierTurn] = splitTurn(earlier);
  if (laterStep === earlierStep) return laterStep === 'polish' && laterTurn > earlierTurn;
  const queue = [laterStep, ...(laterStep.startsWith('clean/') ? ['clean'] : [])];
  for (let step = queue.pop(); step !== undefined; step = queue.pop()) {
    for (const need of NEEDS.get(step) ?? []) {
      if (need === earlierStep || (need === 'clean' && earlierStep.startsWith('clean/'))) return true;
      queue.push(need);
    }
  }
  return false;
}

function splitTurn(path: string): [step: string, turn: number] {
  const [, step = path, turn = '0'] = /^(.*)\[(\d+)\]$/.exec(path) ?? [];
  return [step, Number(turn)];
}

/** One run, in as many processes as it takes. */
class Life {
  readonly #example: Example;
  readonly #storage: { readonly kind: Kind; readonly path: string };
  readonly #side: string;
  kills = 0;
  processes = 0;
  end: Said | undefined;

  constructor(example: Example, kind: Kind) {
    const folder = temporaryFolder();
    this.#example = example;
    this.#storage = { kind, path: join(folder, kind === 'sqlite' ? 'runs.db' : 'runs') };
    this.#side = join(folder, 'outside.log');
  }

  tell(child: Child): void {
    child.tell({
      storage: this.#storage,
      example: this.#example,
      side: this.#side,
      paceMs: PACE_MS,
      isFirst: this.kills === 0,
    });
  }

  get lines(): Line[] {
    if (!existsSync(this.#side)) return [];
    return readFileSync(this.#side, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Line);
  }

  /** What breaks the promise: work done again after its end was durable, another key, an attempt that is counted twice. */
  findFaults(): string[] {
    const faults: string[] = [];
    const seen = new Map<string, Line>();
    for (const line of this.lines) {
      const before = seen.get(line.step);
      if (before !== undefined && before.key !== line.key) faults.push(`${line.step} got another key`);
      if (before !== undefined && before.attempt >= line.attempt)
        faults.push(`${line.step} is attempt ${line.attempt} again`);
      const later = [...seen.keys()].find((step) => comesAfter(step, line.step));
      if (later !== undefined) faults.push(`${line.step} ran again after ${later} had begun`);
      seen.set(line.step, line);
    }
    return faults;
  }

  /** How often steps ran beyond what an uninterrupted run does. */
  countRepetitions(plain: Life): number {
    return this.lines.length - plain.lines.length;
  }

  async findDamage(): Promise<string[]> {
    const { kind, path } = this.#storage;
    const storage = kind === 'sqlite' ? new SqliteCheckpointStorage({ path }) : new FileCheckpointStorage({ path });
    const manager = new CheckpointManager({ storage });
    const { findings } = await manager.verify();
    await manager.close();
    return findings.map(({ subject, problem }) => `${subject}: ${problem}`);
  }
}

/** The last attempt of each step. One that was killed before it did anything has no line, but it counts. */
function lastAttempts(lines: readonly Line[]): Map<string, number> {
  return new Map(lines.map(({ step, attempt }) => [step, attempt]));
}

/** Runs an example to its end, killing its processes after random times. */
async function live(life: Life, pauseMs: () => number | undefined): Promise<string[]> {
  for (;;) {
    const child = await children.next();
    life.processes++;
    life.tell(child);
    await child.heard('open');
    const limitMs = pauseMs();
    if (limitMs === undefined) await child.ended;
    else await Promise.race([sleep(limitMs), child.ended]);
    const { signal } = await child.kill();
    if (signal === 'SIGKILL') life.kills++;
    life.end = child.said.find(({ finished }) => finished !== undefined);
    if (child.stderr !== '') return [`stderr: ${child.stderr.slice(0, 500)}`];
    if (life.end !== undefined) return [];
  }
}

/** A run in one process, to compare others with: one whose lease lapsed on a busy machine did some of its work twice, and does not count. */
async function liveUninterrupted(example: Example, kind: Kind): Promise<Life> {
  for (;;) {
    const life = new Life(example, kind);
    const faults = await live(life, () => undefined);
    expect([faults, life.findFaults(), life.end?.finished]).toEqual([[], [], 'completed']);
    if (life.processes === 1) return life;
  }
}

describe.each<[Example, Kind, number]>([
  ['refund', 'sqlite', trials(75)],
  ['pipeline', 'sqlite', trials(75)],
  ['refund', 'file', trials(25)],
  ['pipeline', 'file', trials(25)],
])('the %s example on %s', (example, kind, kills) => {
  test('[workflow.8] killed at any moment it ends as if it had not been, and nothing that had ended is done again', async () => {
    const random = seededRandom();
    const plain = await liveUninterrupted(example, kind);
    const faults: string[] = [];
    const attempts = lastAttempts(plain.lines);
    let done = 0;
    let repeated = 0;
    let most = 0;
    while (done < kills) {
      const life = new Life(example, kind);
      // With enough kills it comes to its end: on a busy machine the last life would take many more.
      const pauseMs = () => (done + life.kills < kills ? 5 + random.below(250) : undefined);
      faults.push(...(await live(life, pauseMs)), ...life.findFaults());
      if (JSON.stringify(life.end?.output) !== JSON.stringify(plain.end?.output))
        faults.push(`it ended with ${JSON.stringify(life.end)}`);
      const reached = lastAttempts(life.lines);
      for (const [step, attempt] of attempts)
        if ((reached.get(step) ?? 0) < attempt) faults.push(`${step} ended with attempt ${reached.get(step)}`);
      faults.push(...(await life.findDamage()));
      repeated += life.countRepetitions(plain);
      most = Math.max(most, life.kills);
      done += life.kills;
    }
    reportFaults(`workflow ${example} on ${kind} killed at random moments`, {
      trials: done,
      failures: faults,
      notes: `repeated in flight=${repeated} most kills of one run=${most} seed=${random.seed}`,
    });
    expect(faults).toEqual([]);
  });
});

describe('the examples, as their readers run them', () => {
  const say = async (name: string): Promise<string[]> => {
    const path = join(import.meta.dirname, '..', '..', 'examples', 'workflow', name);
    const { stdout } = await promisify(execFile)(process.execPath, [path]);
    return stdout.trimEnd().split('\n');
  };

  test('[workflow.8] a refund is killed twice, asked for once, and paid with one key', async () => {
    expect(await say('approval.mjs')).toEqual([
      '1. A process looks the order up, and is killed while the clerk thinks.',
      'order',
      'amount',
      '2. Another process goes on, and asks.',
      'amount (attempt 2)',
      'waits for a person: Pay 39 back for order 1042?',
      '3. Ann and Bo answer at the same time.',
      'heard',
      'Request "approve" was already answered by Ann: "approve".',
      '4. A third process pays, and is killed in the middle of it.',
      'pay',
      '5. A fourth one finishes. The bank sees the same key again.',
      'pay (attempt 2)',
      'write',
      'book',
      'done: {"paid":39,"letter":"Dear customer. Paid 39, agreed by Ann."}',
    ]);
  });

  test('[workflow.8] a pipeline is killed twice, and does nothing again that had ended', async () => {
    const lines = await say('data-pipeline.mjs');
    const last = lines.slice(lines.findIndex((line) => line.startsWith('2. ')));
    expect(last.filter((line) => line.includes('attempt'))).toEqual([
      'clean/join (attempt 2)',
      'mood (attempt 2)',
      'polish[2] (attempt 2)',
    ]);
    expect(last.at(-1)).toBe(
      'done: {"words":19,"mood":"gloomy","title":"fog until","note":"There is no appendix.","published":true}',
    );
  });
});
