import { EVERY, type Path, pathsOf } from '../../../core/expression/parse-expression.ts';
import { formatSuggestion, suggest } from '../../../core/suggestion.ts';
import type { KeyPath, Problem } from '../../config/problem.ts';
import type { ProblemSource } from '../../config/yaml-source.ts';
import type { StepDraft } from './step-draft.ts';
import { expressionsOf, type Template } from './template.ts';
import type { WorkflowStep } from './workflow.ts';

/** What is looked at: the steps that were understood, with where they were written. */
export type GraphParts = {
  readonly source: ProblemSource;
  readonly drafts: readonly StepDraft[];
  readonly steps: readonly WorkflowStep[];
  /** All ids that occur, also of steps that were not understood. */
  readonly ids: ReadonlySet<string>;
  readonly output: { readonly template: Template; readonly path: KeyPath } | undefined;
};

/** Looking for the word that was meant costs a look at every step; after so many it would help nobody. */
const MAX_SUGGESTIONS = 20;

/** Finds the step that was probably meant, for the first few that do not exist. */
type Guess = (id: string) => string | undefined;

function guessAmong(ids: ReadonlySet<string>): Guess {
  let left = MAX_SUGGESTIONS;
  return (id) => (left-- > 0 ? suggest(id, ids) : undefined);
}

/** Says what is wrong between steps: needs that do not exist or run in a circle, references that cannot be there yet. */
export function checkGraph(parts: GraphParts): Problem[] {
  const guess = guessAmong(parts.ids);
  const needs = checkNeeds(parts, guess);
  const circle = needs.length > 0 ? [] : findCircle(parts);
  if (needs.length > 0 || circle.length > 0) return [...needs, ...circle, ...checkGoto(parts, guess)];
  return [...checkGoto(parts, guess), ...new ReferenceCheck(parts, guess).problems];
}

function checkNeeds({ source, drafts, ids }: GraphParts, guess: Guess): Problem[] {
  return drafts.flatMap(({ id, needs, path }) =>
    needs
      .filter((need) => need === id || !ids.has(need))
      .map((need) => {
        if (need === id) return source.place([...path, 'needs'], `"${id}" needs itself.`);
        const suggestion = guess(need);
        return source.place(
          [...path, 'needs'],
          `there is no step "${need}".${formatSuggestion(suggestion)}`,
          suggestion === undefined ? {} : { suggestion },
        );
      }),
  );
}

function findCircle({ source, drafts }: GraphParts): Problem[] {
  const byId = new Map(drafts.map((draft) => [draft.id, draft]));
  const ordered = new Set(orderSteps(drafts).map(({ id }) => id));
  const first = drafts.find(({ id }) => !ordered.has(id));
  if (first === undefined) return [];
  const way = [first.id];
  for (let at = first; ; ) {
    const next = at.needs.map((need) => byId.get(need)).find((need) => need !== undefined && !ordered.has(need.id));
    if (next === undefined) return [];
    const begin = way.indexOf(next.id);
    way.push(next.id);
    if (begin >= 0) {
      const circle = way.slice(begin).toReversed().join(' → ');
      return [source.place([...next.path, 'needs'], `the steps wait for each other: ${circle}.`)];
    }
    at = next;
  }
}

/** Puts each step after what it needs, and otherwise leaves the order as it was written. What is in a circle is left out. */
export function orderSteps<Step extends { readonly id: string; readonly needs: readonly string[] }>(
  steps: readonly Step[],
): Step[] {
  const known = new Set(steps.map(({ id }) => id));
  const waiting = new Map<string, Step[]>();
  const open = new Map<string, number>();
  const ready: Step[] = [];
  for (const step of steps) {
    const needs = new Set(step.needs.filter((need) => known.has(need)));
    open.set(step.id, needs.size);
    for (const need of needs) waiting.set(need, [...(waiting.get(need) ?? []), step]);
    if (needs.size === 0) ready.push(step);
  }
  for (let at = 0; at < ready.length; at++) {
    for (const next of waiting.get((ready[at] as Step).id) ?? []) {
      const left = (open.get(next.id) ?? 0) - 1;
      open.set(next.id, left);
      if (left === 0) ready.push(next);
    }
  }
  return ready;
}

function checkGoto({ source, drafts, steps, ids }: GraphParts, guess: Guess): Problem[] {
  const order = new Map(drafts.map(({ id }, at) => [id, at]));
  return steps.flatMap(({ id, onError }) => {
    if (onError.kind !== 'goto') return [];
    const at = order.get(id) ?? 0;
    const path = [...(drafts[at]?.path ?? []), 'on_error', 'goto'];
    if (!ids.has(onError.target)) {
      const suggestion = guess(onError.target);
      return [source.place(path, `there is no step "${onError.target}".${formatSuggestion(suggestion)}`)];
    }
    if ((order.get(onError.target) ?? Number.POSITIVE_INFINITY) > at) return [];
    return [source.place(path, `"${onError.target}" does not come later. To do something again, use repeat or retry.`)];
  });
}

/** Looks at every reference: to things that exist, and to steps that have ended by then. */
class ReferenceCheck {
  readonly problems: Problem[] = [];
  readonly #parts: GraphParts;
  readonly #guess: Guess;
  readonly #byId: ReadonlyMap<string, WorkflowStep>;

  constructor(parts: GraphParts, guess: Guess) {
    this.#parts = parts;
    this.#guess = guess;
    this.#byId = new Map(parts.steps.map((step) => [step.id, step]));
    const paths = new Map(parts.drafts.map(({ id, path }) => [id, path]));
    for (const step of parts.steps) this.#checkStep(step, paths.get(step.id) ?? []);
    if (parts.output !== undefined) {
      for (const reference of referencesIn(parts.output.template))
        this.#check(reference, { path: parts.output.path, names: ['input', 'steps'], hasEnded: () => true });
    }
  }

  #checkStep(step: WorkflowStep, path: KeyPath): void {
    const base = ['input', 'steps'];
    const looping = { for_each: ['item', 'index'], repeat: ['iteration', 'previous'] };
    const names = step.loop === undefined ? base : [...base, ...looping[step.loop.kind]];
    const check = (references: readonly Path[], key: string, known: readonly string[]): void => {
      const hasEnded = (id: string): boolean => this.#hasEnded(id, step);
      for (const reference of references) this.#check(reference, { path: [...path, key], names: known, hasEnded });
    };
    const { action, loop } = step;
    check(step.when.flatMap(pathsOf), 'when', base);
    if ('input' in action && action.input !== undefined) check(referencesIn(action.input), 'input', names);
    if (action.kind === 'approval') check(referencesIn(action.message), 'approval', names);
    if (action.kind === 'wait_until') check(referencesIn(action.time), 'wait', names);
    if (loop?.kind === 'for_each') check(referencesIn(loop.items), 'for_each', base);
    if (loop?.kind === 'repeat') check(pathsOf(loop.until), 'repeat', [...names, 'output']);
  }

  /** Whether a step has ended when another begins: what it needs is asked first, and what that needs only if it must be. */
  #hasEnded(id: string, step: WorkflowStep): boolean {
    const seen = new Set<string>();
    const queue = [...step.needs];
    for (let need = queue.shift(); need !== undefined; need = queue.shift()) {
      if (need === id) return true;
      if (seen.has(need)) continue;
      seen.add(need);
      queue.push(...(this.#byId.get(need)?.needs ?? []));
    }
    return false;
  }

  #check(
    [root, id]: Path,
    { path, names, hasEnded }: { path: KeyPath; names: readonly string[]; hasEnded: (id: string) => boolean },
  ): void {
    const { source, ids } = this.#parts;
    if (!names.includes(root)) {
      const suggestion = suggest(root, names) ?? (ids.has(root) ? `steps.${root}.output` : undefined);
      const known = names.join(', ');
      this.problems.push(
        source.place(path, `knows no "${root}".${formatSuggestion(suggestion)} Known here: ${known}.`),
      );
      return;
    }
    if (root !== 'steps') return;
    const name = id === EVERY ? '*' : String(id ?? '');
    if (!ids.has(name)) {
      const suggestion = this.#guess(name);
      this.problems.push(source.place(path, `there is no step "${name}".${formatSuggestion(suggestion)}`));
    } else if (!hasEnded(name)) {
      this.problems.push(source.place(path, `"${name}" may not have ended by then; add it to needs.`));
    }
  }
}

function referencesIn(template: Template): Path[] {
  return expressionsOf(template).flatMap(pathsOf);
}
