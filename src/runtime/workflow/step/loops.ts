import { evaluate, isTrue, type Lookup } from '../../../core/expression/evaluate.ts';
import { render } from '../definition/template.ts';
import type { Loop } from '../definition/workflow.ts';
import { failed, type Outcome } from './outcome.ts';

/** One turn of a loop: its number, and what its names mean. */
export type Turn = { readonly index: number; readonly lookup: Lookup };

/** How turns are done; each is done once, whatever happens to the process. */
export type DoTurn = (turn: Turn) => Promise<Outcome>;

/** Does something for every item of a list, a few at a time. After a turn that failed or is open no new one begins. */
export async function forEach(
  loop: Loop & { readonly kind: 'for_each' },
  lookup: Lookup,
  doTurn: DoTurn,
): Promise<Outcome> {
  const items = render(loop.items, lookup);
  if (!Array.isArray(items)) return failed('InvalidInputError', `for_each needs a list; found ${describe(items)}.`);
  const outcomes: Outcome[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const index = next++;
      const outcome = await doTurn({ index, lookup: extend(lookup, { item: items[index], index }) });
      outcomes[index] = outcome;
      if (outcome.status !== 'done') next = items.length;
    }
  };
  await settle(Array.from({ length: Math.min(loop.concurrency, items.length) }, worker));
  const done = outcomes.filter((outcome) => outcome !== undefined);
  const end = done.find(({ status }) => status === 'failed') ?? done.find(({ status }) => status === 'open');
  return end ?? { status: 'done', output: done.map((outcome) => ('output' in outcome ? outcome.output : undefined)) };
}

/** Does something again and again until a condition holds; a loop that reaches its limit has failed. */
export async function repeat(
  loop: Loop & { readonly kind: 'repeat' },
  lookup: Lookup,
  doTurn: DoTurn,
): Promise<Outcome> {
  let previous: unknown = null;
  for (let iteration = 1; iteration <= loop.limit; iteration++) {
    const names = { iteration, previous };
    const outcome = await doTurn({ index: iteration, lookup: extend(lookup, names) });
    if (outcome.status !== 'done') return outcome;
    const { output } = outcome;
    if (isTrue(evaluate(loop.until, extend(lookup, { ...names, output })))) return outcome;
    previous = output;
  }
  return failed('RepeatLimitError', `The condition did not hold within ${loop.limit} turns.`);
}

/** Waits for all, also if one fails: nothing may still run when the caller is told. */
export async function settle<Value>(promises: Iterable<Promise<Value>>): Promise<Value[]> {
  const results = await Promise.allSettled(promises);
  return results.map((result) => {
    if (result.status === 'rejected') throw result.reason;
    return result.value;
  });
}

function extend(lookup: Lookup, names: { readonly [name: string]: unknown }): Lookup {
  return (root) => (Object.hasOwn(names, root) ? names[root] : lookup(root));
}

function describe(value: unknown): string {
  return value === undefined ? 'nothing' : value === null ? 'null' : `a value of type ${typeof value}`;
}
