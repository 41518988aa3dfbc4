import { formatDuration } from './format.ts';
import type { Terminal } from './terminal.ts';

const SCREEN_EVERY_MS = 100;
/** Where lines are kept, few are enough to see that it goes on. */
const LINE_EVERY_MS = 5_000;
/** What is done sooner needs no bar. */
const SILENT_MS = 1_000;
const MAX_BAR_CHARS = 30;
const MS_PER_SECOND = 1_000;

/** When progress is shown: on a screen and after a second, always, or never. */
export type ProgressMode = 'auto' | 'always' | 'never';

/** What a progress bar counts. */
export type Work = { readonly noun: string; readonly total: number | undefined };

/** Shows how far work is, how fast it goes and how long it will take: on a screen as a bar that moves, else as a line now and then. */
export class ProgressBar {
  readonly #terminal: Terminal;
  readonly #mode: ProgressMode;
  readonly #work: Work;
  readonly #startedMs: number;
  #shownMs = Number.NEGATIVE_INFINITY;
  #hasShown = false;

  constructor(terminal: Terminal, mode: ProgressMode, work: Work) {
    this.#terminal = terminal;
    this.#mode = mode;
    this.#work = work;
    this.#startedMs = terminal.now();
  }

  /** Shows how much is done, or, without a number, how long it took so far. */
  show(done?: number): void {
    const nowMs = this.#terminal.now();
    if (!this.#isDue(nowMs)) return;
    this.#shownMs = nowMs;
    this.#hasShown = true;
    const text = formatProgress(this.#work, done, nowMs - this.#startedMs);
    const chars = Math.min(MAX_BAR_CHARS, this.#terminal.columns - text.length - 2);
    if (this.#terminal.isNoteScreen) this.#terminal.overwrite(formatBar(this.#work.total, done ?? 0, chars) + text);
    else this.#terminal.note(`${text}\n`);
  }

  #isDue(nowMs: number): boolean {
    const { isNoteScreen } = this.#terminal;
    if (this.#mode === 'never' || (this.#mode === 'auto' && !isNoteScreen)) return false;
    if (this.#mode === 'auto' && nowMs - this.#startedMs < SILENT_MS) return false;
    return nowMs - this.#shownMs >= (isNoteScreen ? SCREEN_EVERY_MS : LINE_EVERY_MS);
  }

  /** Takes the bar away. */
  end(): void {
    if (this.#hasShown && this.#terminal.isNoteScreen) this.#terminal.overwrite('');
  }
}

/** Shows that something is under way that cannot tell how far it is, and for how long. */
export async function showBusy<Result>(bar: ProgressBar, work: Promise<Result>): Promise<Result> {
  const timer = setInterval(() => bar.show(), SCREEN_EVERY_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    bar.end();
  }
}

function formatBar(total: number | undefined, done: number, chars: number): string {
  if (chars < 1 || total === undefined) return '';
  const full = Math.min(chars, Math.round((chars * done) / Math.max(1, total)));
  return `${'█'.repeat(full)}${'░'.repeat(chars - full)} `;
}

function formatProgress({ noun, total }: Work, done: number | undefined, elapsedMs: number): string {
  if (done === undefined) return `${noun}  ${formatDuration(Math.ceil(elapsedMs / MS_PER_SECOND))}`;
  const perSecond = (done * MS_PER_SECOND) / Math.max(1, elapsedMs);
  const rate = done === 0 ? '' : `  ${perSecond < 10 ? perSecond.toFixed(1) : Math.round(perSecond)}/s`;
  if (total === undefined) return `${done} ${noun}${rate}`;
  const percent = Math.min(100, Math.floor((100 * done) / Math.max(1, total)));
  const left = done === 0 ? '' : `  ${formatDuration(Math.ceil(Math.max(0, total - done) / perSecond))} left`;
  return `${percent} %  ${done}/${total} ${noun}${rate}${left}`;
}
