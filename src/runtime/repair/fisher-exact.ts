/** Two rows of two counts: successes and failures of each group. */
export type ContingencyTable = readonly [readonly [number, number], readonly [number, number]];

/** Tables that are as likely as the observed one count as such, although their logarithms differ in the last bits. */
const TOLERANCE = 1e-7;

/**
 * The two-sided p-value of Fisher's exact test: how likely a table at least as unlikely as this one is, if both groups are the same.
 * 1 if a group, or an outcome, is empty: then nothing can be said.
 */
export function fisherExact(table: ContingencyTable): number {
  const [[a, b], [c, d]] = table;
  const logFactorials = listLogFactorials(a + b + c + d);
  const rows = [a + b, c + d] as const;
  const successes = a + c;
  const logOf = (x: number): number =>
    logChoose(logFactorials, rows[0], x) + logChoose(logFactorials, rows[1], successes - x);
  const logTotal = logChoose(logFactorials, rows[0] + rows[1], successes);
  const observed = logOf(a) + TOLERANCE;
  let p = 0;
  for (let x = Math.max(0, successes - rows[1]); x <= Math.min(rows[0], successes); x++) {
    const log = logOf(x);
    if (log <= observed) p += Math.exp(log - logTotal);
  }
  return Math.min(1, p);
}

/** The logarithms of 0!, 1!, ... n!: the factorials themselves are too large for numbers from 171 on. */
function listLogFactorials(n: number): number[] {
  const logs = [0];
  for (let i = 1; i <= n; i++) logs.push((logs[i - 1] as number) + Math.log(i));
  return logs;
}

function logChoose(logs: readonly number[], n: number, k: number): number {
  return (logs[n] as number) - (logs[k] as number) - (logs[n - k] as number);
}
