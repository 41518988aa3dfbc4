/** What an order to a terminal begins with. */
export const ESCAPE = '\u001b';

/**
 * Colours of ours carry this number, which nobody who stored something can know: theirs are written out. Each process has another, and
 * shows it to nobody, so that it need not come from what makes keys, which takes long to load.
 */
const SEAL = Array.from({ length: 2 }, () => 1_000 + Math.floor(Math.random() * 9_000)).join(';');

/** A colour of ours, before it is written. */
export const SEALED = new RegExp(`${ESCAPE}\\[(\\d+);${SEAL}m`, 'g');

/** What a terminal obeys, what turns the direction of a text around, and line ends that are none of ours. */
const ORDERS = new RegExp(`${SEALED.source}|[\\p{Cc}\\p{Bidi_Control}\\u2028\\u2029]`, 'gu');

/**
 * A text that a terminal shows instead of obeying it: what is stored comes from models and strangers. Line ends, tabs and our own colours
 * stay, every other control character and bidi control is written out as `\u001b`.
 */
export function toPrintable(text: string): string {
  return writeOut(text).replaceAll(SEALED, `${ESCAPE}[$1m`);
}

/** The same before it is printed: our colours stay sealed, and everything has the width it will have. */
export function writeOut(text: string): string {
  return text.replaceAll(ORDERS, (found: string, color: string | undefined) => {
    if (color !== undefined || found === '\n' || found === '\t') return found;
    return `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
}

/** Paints a text; a terminal without colours gets it as it is. */
export type Paint = (text: string) => string;

/** What switches a colour on, and off. */
const COLORS = { red: [31, 39], green: [32, 39], yellow: [33, 39], cyan: [36, 39], bold: [1, 22], dim: [2, 22] };

/** The colours a command may use. Meaning never hangs on colour alone. */
export type Style = Readonly<Record<keyof typeof COLORS, Paint>>;

/** The style with or without colours. */
export function createStyle(hasColor: boolean): Style {
  const paints = Object.entries(COLORS).map(([name, [on, off]]) => {
    const paint: Paint = (text) => `${ESCAPE}[${on};${SEAL}m${text}${ESCAPE}[${off};${SEAL}m`;
    return [name, (text: string) => (hasColor && text !== '' ? paint(text) : text)];
  });
  return Object.fromEntries(paints) as Style;
}

/** Whether to use colours: the flag first, then NO_COLOR, FORCE_COLOR and TERM, then whether it is a terminal. */
export function wantsColor(
  env: Readonly<Record<string, string | undefined>>,
  { isScreen, flag }: { readonly isScreen: boolean; readonly flag: boolean },
): boolean {
  if (!flag || (env.NO_COLOR ?? '') !== '') return false;
  if ((env.FORCE_COLOR ?? '') !== '') return env.FORCE_COLOR !== '0';
  return isScreen && env.TERM !== 'dumb';
}
