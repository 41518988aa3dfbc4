const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const DURATION = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/;

/** Reads a duration: a number of milliseconds, or a text such as `250ms`, `30s`, `5m`, `2h`, `1d`; undefined if it is none. */
export function parseDuration(value: unknown): number | undefined {
  if (typeof value === 'number') return Number.isFinite(value) && value >= 0 ? value : undefined;
  const [, count, unit = ''] = (typeof value === 'string' && DURATION.exec(value.trim())) || [];
  return count === undefined ? undefined : Math.round(Number(count) * (UNITS_MS[unit] ?? 0));
}
