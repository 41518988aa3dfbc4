import { sealColor } from './printable.ts';

/** Paints a text; a terminal without colours gets it as it is. */
export type Paint = (text: string) => string;

/** The colours a command may use. Meaning never hangs on colour alone. */
export type Style = {
  readonly red: Paint;
  readonly green: Paint;
  readonly yellow: Paint;
  readonly cyan: Paint;
  readonly bold: Paint;
  readonly dim: Paint;
};

const plain: Paint = (text) => text;

const paintWith =
  (on: number, off: number): Paint =>
  (text) =>
    text === '' ? '' : `${sealColor(on)}${text}${sealColor(off)}`;

/** The style with or without colours. */
export function createStyle(hasColor: boolean): Style {
  if (!hasColor) return { red: plain, green: plain, yellow: plain, cyan: plain, bold: plain, dim: plain };
  return {
    red: paintWith(31, 39),
    green: paintWith(32, 39),
    yellow: paintWith(33, 39),
    cyan: paintWith(36, 39),
    bold: paintWith(1, 22),
    dim: paintWith(2, 22),
  };
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
