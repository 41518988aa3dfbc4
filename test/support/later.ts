import { beforeEach, describe, TestRunner, test } from 'vitest';
import type { STORAGES } from './storages.ts';

const part = process.env.TEST_STORAGES;

declare module 'vitest' {
  interface TaskMeta {
    isLater?: boolean;
  }
}

/** Options of a slow test whose rule has quicker ones: as a whole, `npm test` leaves it to the fault loops. */
export const LATER = { ...(part === 'shared' && { skip: true }), meta: { isLater: true } }; // `skip: false` would take back a skip within

/** For a second contract of a storage: all of it is left to the fault loops. */
export function describeLater(title: string, body: () => void): void {
  describe(title, LATER, body);
}

/** For a contract: what is slow on its storage is left to the fault loops. */
export const testBut = (slow: RegExp) =>
  Object.assign((title: string, body: () => Promise<void>): void => test(title, slow.test(title) ? LATER : {}, body), {
    skip: test.skip,
  });

/** As a whole, `npm test` takes some of a list; the file runs again in the fault loops (SHORTENED). */
export function few<Item>(all: readonly Item[], { from, count }: { from: number; count: number }): readonly Item[] {
  return part === 'shared' ? all.slice(from, from + count) : all;
}

if (part === 'rest')
  beforeEach(({ task, skip }) => skip(task.suite?.each !== true && task.meta.isLater !== true, 'npm test runs it'));

type Tests = (name: string, create: (typeof STORAGES)[number][1]) => void;

/**
 * `describe.each` for storages. In a run of a part of the tests, each runs on all of them. In `npm test` each rule does: its tests share the
 * storages out, and the fault loops run each test on the rest.
 */
export const describeOn =
  (storages: typeof STORAGES) =>
  (title: string, tests: Tests): void =>
    describe.each(storages)(title, (name, create) => {
      tests(name, create);
      shareOut(
        storages.findIndex(([known]) => known === name),
        storages.length,
      );
    });

/** Leaves those of the current suite's tests that run on this storage. */
function shareOut(storage: number, count: number): void {
  if (part === undefined) return;
  const { tasks } = TestRunner.getCurrentSuite();
  const isShared = (task: { readonly name: string }): boolean => {
    const ofRule = tasks.filter(({ name }) => ruleOf(name) === ruleOf(task.name));
    const share = Math.ceil(count / ofRule.length);
    return (storage + ofRule.findIndex(({ name }) => name === task.name) * (count - share)) % count < share;
  };
  const kept = tasks.filter((task) => isShared(task) === (part === 'shared'));
  const [first] = tasks;
  // A suite without a test would be a failure.
  if (kept.length === 0 && first !== undefined) kept.push(Object.assign(first, { mode: 'skip' }));
  tasks.splice(0, tasks.length, ...kept);
}

function ruleOf(name: string): string | undefined {
  return /\[[a-z]+\.\d+\]/.exec(name)?.[0];
}
