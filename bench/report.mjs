/** Prints what rows find, and counts the targets. */
export class Report {
  #met = 0;
  #missed = [];

  heading(text) {
    console.log(`\n${text}`);
  }

  /**
   * One line of the table. `target` is `{ atMost }` or `{ atLeast }`, absent for what is only shown; `sides` are named summaries
   * in ms whose raw figures go below; `figures` are other raw figures, as text.
   */
  line({ what, ratio, ratioP10, target, sides = {}, figures = [], unit = '' }) {
    const quiet = ratioP10 === undefined ? '' : ` (p10 ${formatNumber(ratioP10)}${unit})`;
    const measured = `${formatNumber(ratio)}${unit}${quiet}`;
    console.log(
      `  ${what.padEnd(64)} ${formatTarget(target, unit).padEnd(8)} ${measured.padEnd(20)} ${this.#judge({ what, ratio, target, unit })}`,
    );
    const raw = [...Object.entries(sides).map(formatSide), ...figures];
    if (raw.length > 0) console.log(`      ${raw.join(' · ')}`);
  }

  note(text) {
    console.log(`      ${text}`);
  }

  summary() {
    const total = this.#met + this.#missed.length;
    console.log(`\n${this.#met} of ${total} targets met`);
    for (const missed of this.#missed) console.log(`  MISSED ${missed}`);
  }

  #judge({ what, ratio, target, unit }) {
    if (target === undefined) return 'shown only';
    const isMet = target.atMost === undefined ? ratio >= target.atLeast : ratio <= target.atMost;
    if (isMet) this.#met++;
    else this.#missed.push(`${what}: ${formatNumber(ratio)}${unit}, target ${formatTarget(target, unit)}`);
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
  return bytes < 10_000_000 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export function formatNumber(value) {
  if (value >= 100) return value.toFixed(0);
  return value.toFixed(value < 0.1 ? 3 : 2);
}
