const number = new Intl.NumberFormat('en-US');
const short = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3, notation: 'compact' });

/** A count with separators: 1,904. */
export function formatCount(count: number): string {
  return number.format(count);
}

/** A large count in three figures: 1.24 M. */
export function formatShort(count: number): string {
  return count < 1_000
    ? number.format(count)
    : short.format(count).replace(/([A-Z])$/, (unit) => ` ${unit === 'K' ? 'k' : unit}`);
}

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** A size in bytes: 3.1 MB. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1_000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1_000 ** power;
  return `${value >= 100 || power === 0 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}

/** Money: $4.18. */
export function formatCost(usd: number): string {
  return `$${usd > 0 && usd < 0.1 ? usd.toFixed(3) : usd.toFixed(2)}`;
}

/** How long something took: 14 min 52 s. */
export function formatDuration(ms: number): string {
  if (ms < 1) return '< 1 ms';
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1_000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(0)} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ${Math.round((seconds % 3_600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.round((seconds % 86_400) / 3_600)} h`;
}

/** How long ago: 3 min ago. */
export function formatAgo(timeMs: number, nowMs: number): string {
  const seconds = Math.max(0, Math.round((nowMs - timeMs) / 1_000));
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)} h ago`;
  if (seconds < 172_800) return 'yesterday';
  return `${Math.floor(seconds / 86_400)} days ago`;
}

/** A time of day to the millisecond: 13:58:41.207. */
export function formatTime(timeMs: number): string {
  const time = new Date(timeMs);
  return `${time.toLocaleTimeString('en-GB')}.${String(time.getMilliseconds()).padStart(3, '0')}`;
}

/** A day and a time of day: 18 Nov 2026, 13:58. */
export function formatDate(timeMs: number): string {
  return new Date(timeMs).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short' });
}

/** An id as the command line shows it: without `chk_`, its time and what is counted within one. Commands name it whole. */
export function shortId(id: string): string {
  return id.replace(/^chk_/, '').slice(0, 13);
}

/** Escape codes, and marks that turn the direction of what follows: stored text must not look like something else. */
const HIDDEN = /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** A stored text as it is, with what has no shape of its own spelled out: \\u202e. */
export function visible(text: string): string {
  return text.replace(HIDDEN, (mark) =>
    mark === '\n' || mark === '\t' ? mark : `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** A value on one line, for previews: { query: "prices" }. */
export function formatInline(value: unknown, most = 200): string {
  const text = typeof value === 'string' ? value : inline(value);
  return visible(text.length > most ? `${text.slice(0, most)}…` : text);
}

function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? '';
  const fields = Object.entries(value).map(
    ([key, field]) => `${/^\w+$/.test(key) ? key : JSON.stringify(key)}: ${inline(field)}`,
  );
  return fields.length === 0 ? '{}' : `{ ${fields.join(', ')} }`;
}

/** A count and what is counted: 1 checkpoint, 2 checkpoints. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** An argument as a shell takes it. */
export function quoteArgument(text: string): string {
  return /^[\w@%+:,./-][\w@%+=:,./~#-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
