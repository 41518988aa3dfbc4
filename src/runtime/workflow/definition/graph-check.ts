import { EVERY, type Path, pathsOf } from '../../../core/expression/parse-expression.ts';
import { formatSuggestion, suggest } from '../../../core/suggestion.ts';
import type { KeyPath, Problem } from '../../config/problem.ts';
import type { ProblemSource } from '../../config/yaml-source.ts';
import type { ReadStep } from './read-steps.ts';
import { expressionsOf, type Template } from './template.ts';
import type { WorkflowStep } from './workflow.ts';

type GraphParts = {
  readonly source: ProblemSource;
  readonly read: readonly ReadStep[];
  /** All ids that occur, also of steps that were not understood. */
  readonly ids: ReadonlySet<string>;
  readonly output: { readonly template: Template; readonly path: KeyPath } | undefined;
};

/** A step among others, as far as their order goes. */
type Ordered = Pick<ReadStep, 'id' | 'needs'>;

/** A reference of one step to what another one ended with. */
type Reference = { readonly from: string; readonly to: string; readonly path: KeyPath };

/** Looking for the word that was meant costs a look at every step; after so many it would help nobody. */
const MAX_SUGGESTIONS = 5;

/** Says what is wrong between steps: needs that do not exist or run in a circle, references that cannot be there yet. */
export function checkGraph(parts: GraphParts): readonly Problem[] {
  const check = new GraphCheck(parts);
  check.needs();
  if (check.problems.length === 0) check.circle();
  const isOrdered = check.problems.length === 0;
  check.jumps();
  if (isOrdered) check.references();
  return check.problems;
}

class GraphCheck {
  readonly problems: Problem[] = [];
  readonly #parts: GraphParts;
  readonly #references: Reference[] = [];
  #suggestionsLeft = MAX_SUGGESTIONS;

  constructor(parts: GraphParts) {
    this.#parts = parts;
  }

  needs(): void {
    for (const { id, needs, path } of this.#parts.read) {
      for (const need of needs) {
        if (need === id) this.#complain([...path, 'needs'], `"${id}" needs itself.`);
        else if (!this.#parts.ids.has(need)) this.#missing([...path, 'needs'], need);
      }
    }
  }

  circle(): void {
    const { read } = this.#parts;
    const ordered = new Set(orderSteps(read).map(({ id }) => id));
    const open = new Map(read.filter(({ id }) => !ordered.has(id)).map((step) => [step.id, step]));
    const way = new Map<string, number>();
    let at = read.find(({ id }) => open.has(id));
    for (; at !== undefined && !way.has(at.id); at = at.needs.map((need) => open.get(need)).find(Boolean))
      way.set(at.id, way.size);
    if (at === undefined) return;
    const circle = [...[...way.keys()].slice(way.get(at.id)), at.id].toReversed();
    this.#complain([...at.path, 'needs'], `the steps wait for each other: ${circle.join(' → ')}.`);
  }

  /** Jumps go to later steps only. */
  jumps(): void {
    const { read, ids } = this.#parts;
    const order = new Map(read.map(({ id }, at) => [id, at]));
    for (const [at, { step, path }] of read.entries()) {
      if (step?.onError.kind !== 'goto') continue;
      const { target } = step.onError;
      const where = [...path, 'on_error', 'goto'];
      if (!ids.has(target)) this.#missing(where, target);
      else if ((order.get(target) ?? Number.POSITIVE_INFINITY) <= at)
        this.#complain(where, `"${target}" does not come later. To do something again, use repeat or retry.`);
    }
  }

  /** Every reference is to something that exists, and to steps that have ended by then. */
  references(): void {
    const { read, output } = this.#parts;
    for (const { step, path } of read) if (step !== undefined) this.#ofStep(step, path);
    for (const reference of output === undefined ? [] : referencesIn(output.template))
      this.#checkNames(reference, output?.path ?? [], ['input', 'steps']);
    for (const { to, path } of findEarly(read, this.#references))
      this.#complain(path, `"${to}" may not have ended by then; add it to needs.`);
  }

  #ofStep(step: WorkflowStep, path: KeyPath): void {
    const base = ['input', 'steps'];
    const looping = { for_each: ['item', 'index'], repeat: ['iteration', 'previous'] };
    const names = step.loop === undefined ? base : [...base, ...looping[step.loop.kind]];
    const check = (references: readonly Path[], key: string, known: readonly string[]): void => {
      for (const reference of references) {
        const to = this.#checkNames(reference, [...path, key], known);
        if (to !== undefined) this.#references.push({ from: step.id, to, path: [...path, key] });
      }
    };
    const { action, loop } = step;
    check(step.when.flatMap(pathsOf), 'when', base);
    if ('input' in action && action.input !== undefined) check(referencesIn(action.input), 'input', names);
    if (action.kind === 'approval') check(referencesIn(action.message), 'approval', names);
    if (action.kind === 'wait_until') check(referencesIn(action.time), 'wait', names);
    if (loop?.kind === 'for_each') check(referencesIn(loop.items), 'for_each', base);
    if (loop?.kind === 'repeat') check(pathsOf(loop.until), 'repeat', [...names, 'output']);
  }

  /** Returns the step that a reference is to, if there is one. */
  #checkNames([root, id]: Path, path: KeyPath, names: readonly string[]): string | undefined {
    const { ids } = this.#parts;
    if (!names.includes(root)) {
      const suggestion = suggest(root, names) ?? (ids.has(root) ? `steps.${root}.output` : undefined);
      this.#complain(path, `knows no "${root}".${formatSuggestion(suggestion)} Known here: ${names.join(', ')}.`);
    }
    if (root !== 'steps') return undefined;
    const name = id === EVERY ? '*' : String(id ?? '');
    if (ids.has(name)) return name;
    this.#missing(path, name);
    return undefined;
  }

  #missing(path: KeyPath, id: string): void {
    const suggestion = this.#suggestionsLeft-- > 0 ? suggest(id, this.#parts.ids) : undefined;
    this.#complain(path, `there is no step "${id}".${formatSuggestion(suggestion)}`, suggestion);
  }

  #complain(path: KeyPath, message: string, suggestion?: string): void {
    this.problems.push(this.#parts.source.place(path, message, suggestion === undefined ? {} : { suggestion }));
  }
}

/** The references to steps that may not have ended. One pass over all steps answers for all, with a bit for each that is referred to. */
export function findEarly(steps: readonly Ordered[], references: readonly Reference[]): Reference[] {
  const needsOf = new Map(orderSteps(steps).map(({ id, needs }) => [id, needs]));
  const far = references.filter(({ from, to }) => needsOf.get(from)?.includes(to) !== true);
  const targets = new Set(far.map(({ to }) => to));
  const bits = new Map([...targets].map((id, at) => [id, 1n << BigInt(at)]));
  const bitOf = (id: string): bigint => bits.get(id) ?? 0n;
  const ended = new Map<string, bigint>();
  const endedBefore = (id: string): bigint => ended.get(id) ?? 0n;
  for (const [id, needs] of needsOf)
    ended.set(
      id,
      needs.reduce((all, need) => all | endedBefore(need) | bitOf(need), 0n),
    );
  return far.filter(({ from, to }) => (endedBefore(from) & bitOf(to)) === 0n);
}

/** Puts each step after what it needs, and otherwise leaves the order as it was written. What is in a circle is left out. */
export function orderSteps<Step extends Ordered>(steps: readonly Step[]): Step[] {
  const waiting = new Map(steps.map(({ id }) => [id, [] as Step[]]));
  const open = new Map<string, number>();
  for (const step of steps) {
    const lists = [...new Set(step.needs)].flatMap((need) => [waiting.get(need)].filter((list) => list !== undefined));
    open.set(step.id, lists.length);
    for (const list of lists) list.push(step);
  }
  const ready = steps.filter(({ id }) => open.get(id) === 0);
  for (let at = 0; at < ready.length; at++) {
    for (const next of waiting.get((ready[at] as Step).id) ?? []) {
      const left = (open.get(next.id) ?? 0) - 1;
      open.set(next.id, left);
      if (left === 0) ready.push(next);
    }
  }
  return ready;
}

function referencesIn(template: Template): Path[] {
  return expressionsOf(template).flatMap(pathsOf);
}
