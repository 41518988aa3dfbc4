import { withoutUndefined } from '../../../core/defined.ts';
import {
  accepts,
  callback,
  checkOptions,
  delayFrom,
  filledString,
  listOf,
  type OptionChecks,
  oneOf,
  record,
  wholeFrom,
} from '../../../core/options.ts';

/** What to run, and how long to bear with it. */
export type SuperviseOptions = {
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  readonly cwd?: string | undefined;
  readonly env?: NodeJS.ProcessEnv | undefined;
  /** Where the process reads and writes; a channel for messages is added. Default: where this one does. */
  readonly stdio?: readonly ('inherit' | 'ignore' | 'pipe')[] | undefined;
  /** A process that gives no sign of life for so long hangs, and is killed. Default: 60 seconds. */
  readonly hangMs?: number | undefined;
  /** Which messages are signs of life; default: the loop's `heartbeat` events, which stop when a turn does not end. */
  readonly isHeartbeat?: ((message: unknown) => boolean) | undefined;
  /** The exit code by which a process asks for a new one at once. Default: 75. Before its first sign of life, that is a crash. */
  readonly refreshCode?: number | undefined;
  /** Crashes and hangs within `windowMs` that are borne; it gives up at the next one. Default: 5 within 10 minutes. */
  readonly maxRestarts?: number | undefined;
  readonly windowMs?: number | undefined;
  /** The pause before the first restart; doubles with each within the window, up to a minute. Default: 1 second. */
  readonly backoffMs?: number | undefined;
  /** How long a process that was told to stop may take before it is killed. Default: 10 seconds. */
  readonly stopMs?: number | undefined;
  readonly onMessage?: ((message: unknown) => void) | undefined;
  readonly onEvent?: ((event: SupervisionEvent) => void) | undefined;
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

const stream = oneOf('inherit', 'ignore', 'pipe');

const OPTIONS = {
  command: { required: filledString },
  args: listOf(accepts('a string without NUL', (value) => typeof value === 'string' && !value.includes('\0'))),
  cwd: filledString,
  env: record,
  stdio: accepts(
    `a list of ${STREAMS} or more of "inherit", "ignore", "pipe": stdin, stdout, stderr`,
    (value) => listOf(stream)(value) === undefined && (value as readonly unknown[]).length >= STREAMS,
  ),
  hangMs: delayFrom(1),
  isHeartbeat: callback,
  refreshCode: wholeFrom(1, 255),
  maxRestarts: wholeFrom(0),
  windowMs: delayFrom(1),
  backoffMs: delayFrom(0),
  stopMs: delayFrom(0),
  onMessage: callback,
  onEvent: callback,
} satisfies OptionChecks<SuperviseOptions>;

/** Checks what a caller said about a process before one is started, and adds the defaults. */
export function readSuperviseOptions(options: SuperviseOptions): ReadSuperviseOptions {
  checkOptions(options, OPTIONS, 'superviseProcess()');
  return { ...DEFAULTS, ...withoutUndefined(options) };
}
