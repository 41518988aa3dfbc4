import type { Compared } from './compare-screen.tsx';

type Step = Compared['steps'][number];

/** A line of two branches beside each other: a step, or a run of steps of one kind that is folded. */
export type CompareRow =
  | { readonly at: number; readonly count: 1; readonly step: Step }
  | { readonly at: number; readonly count: number; readonly steps: readonly Step[] };

/** Of a longer run of one kind only the ends are shown. */
const LONGEST_RUN = 7;
const SHOWN_BEFORE = 3;
const SHOWN_AFTER = 1;

/** The lines, with long runs folded unless they were opened. */
export function rowsOf(steps: readonly Step[], opened: ReadonlySet<number>): CompareRow[] {
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
