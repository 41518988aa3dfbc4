import {
  checkFields,
  checkFunction,
  checkText,
  describeValue,
  type FieldChecks,
  givenFields,
  isObject,
  listOf,
  oneOf,
  refuse,
  wholeFrom,
} from './field-checks.ts';

/** What to run, and how long to bear with it. */
export type SuperviseOptions = {
  readonly command: string;
  readonly args?: readonly string[];
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** Where the process reads and writes; a channel for messages is added. Default: where this one does. */
  readonly stdio?: readonly ('inherit' | 'ignore' | 'pipe')[];
  /** A process that gives no sign of life for so long hangs, and is killed. Default: 60 seconds. */
  readonly hangMs?: number;
  /** Which messages are signs of life; default: the loop's `heartbeat` events, which stop when a turn does not end. */
  readonly isHeartbeat?: (message: unknown) => boolean;
  /** The exit code by which a process asks for a new one at once. Default: 75. Before its first sign of life, that is a crash. */
  readonly refreshCode?: number;
  /** Crashes and hangs within `windowMs` that are borne; it gives up at the next one. Default: 5 within 10 minutes. */
  readonly maxRestarts?: number;
  readonly windowMs?: number;
  /** The pause before the first restart; doubles with each within the window, up to a minute. Default: 1 second. */
  readonly backoffMs?: number;
  /** How long a process that was told to stop may take before it is killed. Default: 10 seconds. */
  readonly stopMs?: number;
  readonly onMessage?: (message: unknown) => void;
  readonly onEvent?: (event: SupervisionEvent) => void;
};

/** What happens to the process. */
export type SupervisionEvent =
  | { readonly kind: 'spawned'; readonly pid: number | undefined }
  | { readonly kind: 'hung'; readonly pid: number | undefined }
  | { readonly kind: 'ended'; readonly why: ProcessEnd; readonly code: number | null; readonly signal: string | null }
  | { readonly kind: 'gave_up'; readonly restarts: number };

/** Why a process ended. */
export type ProcessEnd = 'done' | 'refresh' | 'crash' | 'hang' | 'stopped';

const DEFAULTS = {
  hangMs: 60_000,
  refreshCode: 75,
  maxRestarts: 5,
  windowMs: 600_000,
  backoffMs: 1000,
  stopMs: 10_000,
};

/** Options that were checked, with their defaults. */
export type ReadSuperviseOptions = SuperviseOptions & typeof DEFAULTS;

/** The channel for messages comes after these. */
const STREAMS = 3;

const CHECKS = {
  command: checkText,
  args: listOf((value, field) => {
    if (typeof value !== 'string' || value.includes('\0'))
      throw refuse(`${field} is ${describeValue(value)}`, ['a text without NUL']);
  }),
  cwd: checkText,
  env: (value: unknown, field: string) => {
    if (!isObject(value)) throw refuse(`${field} is ${describeValue(value)}`, ['an object']);
  },
  stdio: checkStdio,
  hangMs: wholeFrom(1),
  isHeartbeat: checkFunction,
  refreshCode: wholeFrom(1, 255),
  maxRestarts: wholeFrom(0),
  windowMs: wholeFrom(1),
  backoffMs: wholeFrom(0),
  stopMs: wholeFrom(0),
  onMessage: checkFunction,
  onEvent: checkFunction,
} satisfies FieldChecks;

function checkStdio(value: unknown, field: string): void {
  listOf(oneOf('inherit', 'ignore', 'pipe'))(value, field);
  const { length } = value as readonly unknown[];
  if (length < STREAMS) throw refuse(`${field} has ${length} entries`, [`${STREAMS} or more: stdin, stdout, stderr`]);
}

/** Checks what a caller said about a process before one is started, and adds the defaults. */
export function readSuperviseOptions(options: SuperviseOptions): ReadSuperviseOptions {
  checkFields(options, 'options', CHECKS);
  CHECKS.command(options.command, 'options.command');
  return { ...DEFAULTS, ...givenFields(options) };
}
