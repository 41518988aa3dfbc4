import fc from 'fast-check';
import { expect, test } from 'vitest';
import { drawn } from '../../../test/support/trials.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import type { Session } from '../session/session.ts';

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
