import { wrapWords } from './format.ts';
import { createStyle, type Style, toPrintable, wantsColor } from './style.ts';

/** The person in front of a command: what it prints, and on what. */
export interface Terminal {
  /** Whether answers appear on a screen, so that tables, colours and a pager make sense. */
  readonly isScreen: boolean;
  /** Whether notes appear on a screen that can be overwritten. */
  readonly isNoteScreen: boolean;
  /** Whether a person can be asked. */
  readonly canAsk: boolean;
  readonly columns: number;
  readonly rows: number;
  readonly style: Style;
  /** Milliseconds, for rates. */
  now(): number;
  /** The answer of the command: on a screen, lines that are too long go on in the next. */
  print(text: string): void;
  /** What `print` writes. */
  toFitting(text: string): string;
  /** The answer where every line counts, such as JSON. */
  printWhole(text: string): void;
  /** A stored text for a program: as it is, except on a screen. */
  pass(text: string): void;
  /** What goes on meanwhile, and errors. */
  note(text: string): void;
  /** Puts a text in the place of the last line of notes, on a screen. */
  overwrite(text: string): void;
}

type Streams = Pick<NodeJS.Process, 'stdin' | 'stdout' | 'stderr' | 'env'>;

const ERASE_LINE = '\r\u001b[K';
const DEFAULT_COLUMNS = 80;
const DEFAULT_ROWS = 24;

/** The terminal of a process. */
export function createTerminal({ stdin, stdout, stderr, env }: Streams, flags: { readonly color: boolean }): Terminal {
  const isScreen = stdout.isTTY === true;
  const isNoteScreen = stderr.isTTY === true;
  const columnsOf = (): number => stdout.columns || stderr.columns || DEFAULT_COLUMNS;
  const toFitting = (text: string) => (isScreen ? wrapWords(toPrintable(text), columnsOf()) : toPrintable(text));
  return {
    isScreen,
    isNoteScreen,
    canAsk: stdin.isTTY === true && isNoteScreen,
    get columns() {
      return columnsOf();
    },
    rows: stdout.rows ?? DEFAULT_ROWS,
    style: createStyle(wantsColor(env, { isScreen, flag: flags.color })),
    now: () => performance.now(),
    print: (text) => void stdout.write(toFitting(text)),
    toFitting,
    printWhole: (text) => void stdout.write(toPrintable(text)),
    pass: (text) => void stdout.write(isScreen ? toPrintable(text) : text),
    note: (text) => void stderr.write(isNoteScreen ? wrapWords(toPrintable(text), columnsOf()) : toPrintable(text)),
    overwrite: (text) => void stderr.write(ERASE_LINE + toPrintable(text)),
  };
}
