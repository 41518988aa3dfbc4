import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';
import type { StepAttempt } from './step.ts';

/** A call of a step: what it is called with, and how it ends before the process dies. */
type Call = { readonly name: string; readonly input: number; readonly end: 'done' | 'failed' | 'in flight' };

const call: fc.Arbitrary<Call> = fc.record({
  name: fc.constantFrom('pay', 'mail'),
  input: fc.nat({ max: 5 }),
  end: fc.constantFrom('done', 'done', 'failed', 'in flight'),
});

const scenario = fc.record({
  calls: fc.uniqueArray(call, { minLength: 1, maxLength: 8, selector: ({ name, input }) => `${name} ${input}` }),
  isParallel: fc.boolean(),
  savedAfter: fc.option(fc.nat({ max: 4 }), { nil: undefined }),
  order: fc.array(fc.nat(), { minLength: 8, maxLength: 8 }),
});

const idOf = ({ name, input }: Call) => `${name} ${input}`;

/** Makes calls; returns the keys under which each ran. */
async function make(session: Session, calls: readonly Call[], isParallel: boolean): Promise<Map<string, string[]>> {
  const ran = new Map<string, string[]>();
  const begun: Promise<unknown>[] = [];
  for (const one of calls) {
    const running = new Promise<void>((resolve) => {
      const run = ({ idempotencyKey }: { idempotencyKey: string }): unknown => {
        ran.set(idOf(one), [...(ran.get(idOf(one)) ?? []), idempotencyKey]);
        resolve();
        if (one.end === 'failed') throw new Error('no answer');
        return one.end === 'done' ? idOf(one) : new Promise(() => undefined);
      };
      const ended = session.step(one.name, run, { input: one.input }).then(
        (result) => {
          expect(result).toBe(idOf(one));
          resolve();
        },
        () => undefined,
      );
      if (one.end !== 'in flight') void ended.then(() => resolve());
    });
    begun.push(running);
    if (!isParallel) await running;
  }
  await Promise.all(begun);
  await new Promise((resolve) => setImmediate(resolve));
  return ran;
}

test('[effect.3] in any order, side by side or not: what is done is not done again, and every key belongs to one call', async () => {
  const property = fc.asyncProperty(scenario, async ({ calls, isParallel, savedAfter, order }) => {
    const storage = new InMemoryCheckpointStorage();
    const first = await new CheckpointManager({ storage }).session('s');
    const before = savedAfter === undefined ? [] : calls.slice(0, savedAfter);
    await make(first, before, isParallel);
    if (savedAfter !== undefined) await first.save({ n: 1 });
    const since = calls.slice(before.length);
    const ranBefore = await make(first, since, isParallel);
    const again = since
      .map((one, at) => ({ one, at: order[at] ?? 0 }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ one }): Call => ({ ...one, end: 'done' }));
    const second = await new CheckpointManager({ storage }).session('s');
    const ranAgain = await make(second, again, isParallel);
    const isDone = (one: Call) => one.end === 'done';
    for (const one of since) {
      const [key, ...more] = ranBefore.get(idOf(one)) ?? [];
      expect(more).toEqual([]);
      expect(ranAgain.get(idOf(one)) ?? []).toEqual(isDone(one) ? [] : [key]);
    }
    const keys = since.map((one) => ranBefore.get(idOf(one))?.[0]);
    expect(new Set(keys).size).toBe(since.length);
  });
  await fc.assert(property, drawn(150));
});

/** A step of a program, and whether its result is saved at once. */
type Part = { readonly name: string; readonly isSaved: boolean };
/** Where a run of it ends: in a step, which fails or hangs, or after one that ran, before its save or after that. */
type Stop = { readonly at: number; readonly how: 'failed' | 'in flight' | 'done' | 'saved' };

const program = fc.record({
  parts: fc.array(fc.record({ name: fc.constantFrom('w', 'x'), isSaved: fc.boolean() }), {
    minLength: 6,
    maxLength: 6,
  }),
  stops: fc.array(fc.record({ at: fc.nat({ max: 5 }), how: fc.constantFrom('failed', 'in flight', 'done', 'saved') }), {
    maxLength: 5,
  }) as fc.Arbitrary<Stop[]>,
  hasInput: fc.boolean(),
});

/** Notes the attempts of the calls that a program makes, each of them one entry. */
class Runs {
  readonly made = new Map<number, { readonly attempt: number; readonly key: string; readonly isDone: boolean }[]>();
  readonly #storage = new InMemoryCheckpointStorage();

  /** Runs the program from its first line; returns its state if it comes to its end. */
  async run(parts: readonly Part[], hasInput: boolean, stop?: Stop): Promise<readonly string[] | undefined> {
    const options = { initial: { log: [] as string[] }, replayFrom: 'start' } as const;
    const session = await new CheckpointManager({ storage: this.#storage }).session('s', options);
    for (const [at, { name, isSaved }] of parts.entries()) {
      const how = stop?.at === at ? stop.how : undefined;
      const result = await new Promise<string | undefined>((resolve) => {
        const call = ({ attempt, idempotencyKey: key }: StepAttempt) => {
          const isDone = how !== 'failed' && how !== 'in flight';
          this.made.set(at, [...(this.made.get(at) ?? []), { attempt, key, isDone }]);
          if (isDone) return `${at}`;
          if (how === 'in flight') resolve(undefined);
          return how === 'failed' ? Promise.reject(new Error('no answer')) : new Promise<string>(() => undefined);
        };
        session.step(name, call, hasInput ? { input: at } : {}).then(resolve, () => resolve(undefined));
      });
      if (result === undefined || how === 'done') return undefined;
      if (isSaved) await session.update((draft) => void draft.log.push(result));
      if (how === 'saved') return undefined;
    }
    return session.state.log;
  }
}

test('[effect.1] a program that runs from its start, wherever its runs ended, makes each call once, under one key', async () => {
  const property = fc.asyncProperty(program, async ({ parts, stops, hasInput }) => {
    const runs = new Runs();
    for (const stop of stops) await runs.run(parts, hasInput, stop);
    const saved = parts.flatMap(({ isSaved }, at) => (isSaved ? [`${at}`] : []));
    for (let times = 0; times < 2; times++) expect(await runs.run(parts, hasInput)).toEqual(saved);
    for (const attempts of runs.made.values()) {
      expect(attempts.map(({ attempt }) => attempt)).toEqual(attempts.map((_, index) => index + 1));
      expect(new Set(attempts.map(({ key }) => key)).size).toBe(1);
      expect(attempts.map(({ isDone }) => isDone).indexOf(true)).toBe(attempts.length - 1);
    }
  });
  await fc.assert(property, drawn(150));
});
