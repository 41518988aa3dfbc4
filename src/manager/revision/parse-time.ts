import { InvalidInputError } from '../../core/errors.ts';

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  sec: 1_000,
  second: 1_000,
  m: 60_000,
  min: 60_000,
  minute: 60_000,
  h: 3_600_000,
  hour: 3_600_000,
  d: 86_400_000,
  day: 86_400_000,
  w: 604_800_000,
  week: 604_800_000,
};

const DURATION = /^(\d+(?:\.\d+)?)\s*([a-z]+?)s?$/i;

/** The longest that a date can be away from 1970. */
const MAX_DURATION_DAYS = 100_000_000;

/** Reads a duration such as `30d`, `2h`, `90 min`, in whole milliseconds. */
export function parseDuration(text: string): number {
  const [, count, unit = ''] = DURATION.exec(text.trim()) ?? [];
  const unitMs = UNIT_MS[unit.toLowerCase()];
  if (count === undefined || unitMs === undefined) {
    throw new InvalidInputError(`"${text}" is no duration. Write a number and s, min, h, d or w, such as 30d or 2h.`);
  }
  const durationMs = Math.round(Number(count) * unitMs);
  if (durationMs > MAX_DURATION_DAYS * 86_400_000)
    throw new InvalidInputError(`"${text}" is too long. Write a duration of at most ${MAX_DURATION_DAYS}d.`);
  return durationMs;
}

const AGO: Readonly<Record<string, string>> = { now: '0s', yesterday: '1d' };

/** Reads a moment: `2h ago`, `yesterday`, `now`, or a date such as 2026-01-31 or 2026-01-31T12:00. Dates without a zone are UTC. */
export function parseTime(text: string, nowMs: number): Date {
  const words = text.trim().toLowerCase();
  const ago = AGO[words] ?? words.replace(/\s+ago$/, '');
  if (DURATION.test(ago)) return new Date(nowMs - parseDuration(ago));
  const iso = text.trim().replace(' ', 'T');
  const time = new Date(/T/.test(iso) && !/(Z|[+-]\d\d:?\d\d)$/i.test(iso) ? `${iso}Z` : iso);
  if (Number.isNaN(time.getTime()) || !isDay(iso)) {
    throw new InvalidInputError(`"${text}" is no time. Write 2h ago, yesterday, 2026-01-31 or 2026-01-31T12:00.`);
  }
  return time;
}

/** Dates that no calendar has, such as the 30th of February, would be read as a day of the next month. */
function isDay(iso: string): boolean {
  const [day] = /^\d{4}-\d\d-\d\d/.exec(iso) ?? [];
  return day === undefined || new Date(`${day}T00:00Z`).toISOString().startsWith(day);
}
