import type { Compared } from './compare-screen.tsx';

type Step = Compared['steps'][number];

/** A line of two branches beside each other: a step, or a run of steps of one kind that is folded. */
export type CompareRow =
  | { readonly at: number; readonly count: 1; readonly step: Step }
  | { readonly at: number; readonly count: number; readonly steps: readonly Step[] }
  | CompareGroup;

/** The head of what one agent said, or of what was done with one tool, and how often on either side. */
export type CompareGroup = {
  readonly at: number;
  readonly group: string;
  readonly by: Grouping;
  readonly a: number;
  readonly b: number;
};

/** How the lines are ordered: as they were said, by who said them, or by what was called. */
export const GROUPINGS = ['Step', 'Agent', 'Tool'] as const;
export type Grouping = (typeof GROUPINGS)[number];

/** The group of what calls nothing. */
export const NO_CALL = 'without a call';

/** Of a longer run of one kind only the ends are shown. */
const LONGEST_RUN = 7;
const SHOWN_BEFORE = 3;
const SHOWN_AFTER = 1;

/** The lines, with long runs folded unless they were opened. */
export function rowsOf(steps: readonly Step[], opened: ReadonlySet<number | string>): CompareRow[] {
  const rows: CompareRow[] = [];
  const show = (from: number, to: number) => {
    for (const [n, step] of steps.slice(from, to).entries()) rows.push({ at: from + n, count: 1, step });
  };
  for (let from = 0; from < steps.length; ) {
    let to = from + 1;
    while (to < steps.length && steps[to]?.kind === steps[from]?.kind) to++;
    const [begin, end] = [from + SHOWN_BEFORE, to - SHOWN_AFTER];
    if (to - from <= LONGEST_RUN || steps[from]?.kind === 'changed' || opened.has(begin)) show(from, to);
    else {
      show(from, begin);
      rows.push({ at: begin, count: end - begin, steps: steps.slice(begin, end) });
      show(end, to);
    }
    from = to;
  }
  return rows;
}

/** The lines by speaker or by tool, what differs most first; those of the groups that were opened. */
export function groupsOf(steps: readonly Step[], by: Grouping, opened: ReadonlySet<number | string>): CompareRow[] {
  const groups = new Map<string, { a: number; b: number; rows: CompareRow[] }>();
  for (const [at, step] of steps.entries()) {
    const [inA, inB] = [namesOf(step.a, by), namesOf(step.b, by)];
    for (const name of new Set([...inA, ...inB])) {
      const group = groups.get(name) ?? { a: 0, b: 0, rows: [] };
      groups.set(name, group);
      const count = (names: readonly string[]) => names.filter((each) => each === name).length;
      group.a += count(inA);
      group.b += count(inB);
      group.rows.push({ at, count: 1, step: sideOf(step, inA.includes(name), inB.includes(name)) });
    }
  }
  return [...groups]
    .sort(([, one], [, two]) => Math.abs(two.a - two.b) - Math.abs(one.a - one.b))
    .flatMap(([group, { a, b, rows }]) => [{ at: -1, group, by, a, b }, ...(opened.has(group) ? rows : [])]);
}

function namesOf(said: Step['a'], by: Grouping): readonly string[] {
  if (said === undefined) return [];
  if (by === 'Agent') return [said.speaker];
  return said.tools.length === 0 ? [NO_CALL] : said.tools;
}

/** A line of which perhaps only one side belongs to a group. */
function sideOf({ kind, a, b }: Step, hasA: boolean, hasB: boolean): Step {
  if (hasA && hasB) return { kind, a, b };
  return hasA ? { kind: 'only_a', a } : { kind: 'only_b', b };
}

/** What happened in a run, in few words: which tools were called, how often. */
export function toolsOf(steps: readonly Step[]): string {
  const counts = new Map<string, number>();
  for (const { a, b } of steps) for (const tool of (a ?? b)?.tools ?? []) counts.set(tool, (counts.get(tool) ?? 0) + 1);
  return [...counts]
    .sort(([, a], [, b]) => b - a)
    .slice(0, 3)
    .map(([tool, count]) => `${tool} ×${count}`)
    .join(', ');
}
