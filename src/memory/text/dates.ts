/** A stretch of time that a text speaks of; `toMs` is exclusive. */
export type DateRange = { readonly fromMs: number; readonly toMs: number };

const DAY_MS = 86_400_000;
const MONTHS = 'january|february|march|april|may|june|july|august|september|october|november|december';
const MONTH_NAMES = MONTHS.split('|');

/** `7 May 2023`, `May 7th, 2023`, `May 2023`, `in May`. The verb "may" is not a month: it needs a day, a year or a preposition. */
const NAMED = new RegExp(
  `(?:\\b(\\d{1,2})(?:st|nd|rd|th)?(?:\\s+of)?\\s+)?\\b(${MONTHS})\\b(?:\\s+(\\d{1,2})(?:st|nd|rd|th)?\\b(?!\\d))?(?:,?\\s+(\\d{4})\\b)?`,
  'gi',
);
const ISO = /\b(\d{4})-(\d{2})(?:-(\d{2}))?\b/g;
const YEAR = /\b(?:in|of|during|since|year)\s+((?:19|20)\d{2})\b/gi;
const RELATIVE = /\b(today|yesterday|last (?:night|week|month|year|weekend)|this (?:week|month|year|morning))\b/gi;

/** How far back, in days, and how long, in days, a relative expression reaches. */
const REACH: Readonly<Record<string, readonly [back: number, days: number]>> = {
  today: [0, 1],
  'this morning': [0, 1],
  yesterday: [1, 1],
  'last night': [1, 1],
  'this week': [7, 8],
  'last week': [14, 14],
  'last weekend': [9, 9],
  'this month': [31, 32],
  'last month': [62, 62],
  'this year': [366, 367],
  'last year': [731, 731],
};

/** The dates that a text names; what is said relatively ("last week") counts from `nowMs`, and so does a month without a year. */
export function datesIn(text: string, nowMs: number): DateRange[] {
  return [...namedDates(text, nowMs), ...isoDates(text), ...years(text), ...relativeDates(text, nowMs)];
}

const NUMBERS = 'a an one two three four five six seven eight nine ten'.split(' ');
const AGO = new RegExp(`\\b(\\d{1,2}|${NUMBERS.join('|')}) (month|year|decade)s? ago\\b`, 'i');
const AGO_DAYS: Readonly<Record<string, number>> = { month: 31, year: 366, decade: 3660 };

/** When something happened that a text dates to a time before today, at the earliest: a month, a year, or some of them ago. */
export function pastDateIn(text: string, nowMs: number): number | undefined {
  const [, count = '', unit = ''] = AGO.exec(text) ?? [];
  const ago = NUMBERS.indexOf(count.toLowerCase());
  const days = (ago < 0 ? Number(count) : Math.max(1, ago)) * (AGO_DAYS[unit.toLowerCase()] ?? 0);
  const dates = [...namedDates(text, nowMs), ...isoDates(text), ...years(text)].filter(({ toMs }) => toMs <= nowMs);
  const starts = [...dates.map(({ fromMs }) => fromMs), ...(days > 0 ? [nowMs - days * DAY_MS] : [])];
  return starts.length === 0 ? undefined : Math.min(...starts);
}

function namedDates(text: string, nowMs: number): DateRange[] {
  return [...text.matchAll(NAMED)].flatMap((match) => {
    const [, before, name = '', after, year] = match;
    const month = MONTH_NAMES.indexOf(name.toLowerCase());
    const day = before ?? after;
    const isBare = day === undefined && year === undefined;
    if (isBare && !/\b(?:in|during|of|since|last|this)\s+$/i.test(text.slice(0, match.index))) return [];
    return [rangeOf(year === undefined ? lastYearOf(month, nowMs) : Number(year), month, toNumber(day))];
  });
}

/** The year in which this month was last. */
function lastYearOf(month: number, nowMs: number): number {
  const now = new Date(nowMs);
  return month <= now.getUTCMonth() ? now.getUTCFullYear() : now.getUTCFullYear() - 1;
}

function isoDates(text: string): DateRange[] {
  return [...text.matchAll(ISO)].map(([, year, month, day]) => rangeOf(Number(year), Number(month) - 1, toNumber(day)));
}

function years(text: string): DateRange[] {
  return [...text.matchAll(YEAR)].map(([, year]) => ({
    fromMs: Date.UTC(Number(year), 0, 1),
    toMs: Date.UTC(Number(year) + 1, 0, 1),
  }));
}

function relativeDates(text: string, nowMs: number): DateRange[] {
  const todayMs = Math.floor(nowMs / DAY_MS) * DAY_MS;
  return [...text.matchAll(RELATIVE)].flatMap(([words]) => {
    const reach = REACH[words.toLowerCase()];
    if (reach === undefined) return [];
    const fromMs = todayMs - reach[0] * DAY_MS;
    return [{ fromMs, toMs: fromMs + reach[1] * DAY_MS }];
  });
}

function rangeOf(year: number, month: number, day: number | undefined): DateRange {
  return day === undefined
    ? { fromMs: Date.UTC(year, month, 1), toMs: Date.UTC(year, month + 1, 1) }
    : { fromMs: Date.UTC(year, month, day), toMs: Date.UTC(year, month, day + 1) };
}

function toNumber(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}
