/** Prints what rows find, and counts the targets. */
export class Report {
  met = 0;
  missed = [];
  /** What was printed, by row: for a document of it. */
  sections = [];
  /** Points of plots: plot, series, `[x, y]`. */
  plots = {};

  /** All of it, to be sent to another process. */
  get found() {
    const { met, missed, sections, plots } = this;
    return { met, missed, sections, plots };
  }

  /** Adds what was found in another process. Each plot is drawn by one row. */
  add({ met, missed, sections, plots }) {
    this.met += met;
    this.missed.push(...missed);
    this.sections.push(...sections);
    Object.assign(this.plots, plots);
  }

  heading(title) {
    this.sections.push({ title: title.trim(), lines: [], notes: [] });
    console.log(`\n${title}`);
  }

  /**
   * One line of the table. `target` is `{ atMost }` or `{ atLeast }`, absent for what is only shown; `sides` are named summaries
   * in ms whose raw figures go below; `figures` are other raw figures, as text.
   */
  line({ what, ratio, ratioP10, target, sides = {}, figures = [], unit = '' }) {
    const quiet = ratioP10 === undefined ? '' : ` (p10 ${formatNumber(ratioP10)}${unit})`;
    const line = {
      what,
      target: formatTarget(target, unit),
      measured: `${formatNumber(ratio)}${unit}${quiet}`,
      verdict: this.#judge({ what, ratio, target, unit }),
    };
    this.sections.at(-1).lines.push(line);
    console.log(`  ${what.padEnd(64)} ${line.target.padEnd(8)} ${line.measured.padEnd(20)} ${line.verdict}`);
    const raw = [...Object.entries(sides).map(formatSide), ...figures];
    if (raw.length > 0) console.log(`      ${raw.join(' · ')}`);
  }

  note(text) {
    this.sections.at(-1).notes.push(text);
    console.log(`      ${text}`);
  }

  point(plot, series, place) {
    this.plots[plot] ??= {};
    this.plots[plot][series] ??= [];
    this.plots[plot][series].push(place);
  }

  summary() {
    console.log(`\n${this.met} of ${this.met + this.missed.length} targets met`);
    for (const missed of this.missed) console.log(`  MISSED ${missed}`);
  }

  #judge({ what, ratio, target, unit }) {
    if (target === undefined) return 'shown only';
    const isMet = target.atMost === undefined ? ratio >= target.atLeast : ratio <= target.atMost;
    if (isMet) this.met++;
    else this.missed.push(`${what}: ${formatNumber(ratio)}${unit}, target ${formatTarget(target, unit)}`);
    return isMet ? 'ok' : 'MISSED';
  }
}

function formatTarget(target, unit) {
  if (target === undefined) return '';
  return target.atMost === undefined ? `≥ ${target.atLeast}${unit}` : `≤ ${target.atMost}${unit}`;
}

function formatSide([name, { median, p10 }]) {
  return `${name} ${formatMs(median)} (p10 ${formatMs(p10)})`;
}

export function formatMs(ms) {
  if (ms < 1) return `${(ms * 1000).toFixed(0)} µs`;
  return `${ms.toFixed(ms < 10 ? 2 : 1)} ms`;
}

export function formatBytes(bytes) {
  if (bytes < 10_000) return `${Math.round(bytes)} B`;
  if (bytes < 10_000_000) return `${plain(bytes / 1000)} kB`;
  return bytes < 10_000_000_000 ? `${plain(bytes / 1_000_000)} MB` : `${plain(bytes / 1_000_000_000)} GB`;
}

/** One digit after the point, none where it is 0. */
function plain(value) {
  return value.toFixed(1).replace('.0', '');
}

export function formatNumber(value) {
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value < 0.1 ? 3 : 2);
}
