import { randomInt } from 'node:crypto';

const ESCAPE = '\u001b';

/** Colours of ours carry this number, which nobody who stored something can know: theirs are written out. */
const SEAL = Array.from({ length: 2 }, () => randomInt(1_000, 10_000)).join(';');

const SEALED = new RegExp(`${ESCAPE}\\[(\\d+);${SEAL}m`, 'g');

/** What a terminal obeys, what turns the direction of a text around, and line ends that are none of ours. */
const ORDERS = new RegExp(`${SEALED.source}|[\\p{Cc}\\p{Bidi_Control}\\u2028\\u2029]`, 'gu');

/** The code of a colour, to be let through by `toPrintable` and `toPiped`. */
export function sealColor(code: number): string {
  return `${ESCAPE}[${code};${SEAL}m`;
}

/**
 * A text that a terminal shows instead of obeying it: what is stored comes from models and strangers. Line ends, tabs and our own colours
 * stay, every other control character and bidi control is written out as `\u001b`.
 */
export function toPrintable(text: string): string {
  return text.replaceAll(ORDERS, (found: string, color: string | undefined) => {
    if (color !== undefined) return `${ESCAPE}[${color}m`;
    return found === '\n' || found === '\t' ? found : `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** A text for a pipe: as it is, with colours only where they were forced. */
export function toPiped(text: string): string {
  return text.replaceAll(SEALED, `${ESCAPE}[$1m`);
}
