import type { TransferProgress } from '../../adapter/langgraph/index.ts';
import type { Terminal } from './terminal.ts';

const SCREEN_EVERY_MS = 100;
/** Where lines are kept, few are enough to see that it goes on. */
const LINE_EVERY_MS = 5_000;
const MAX_BAR_CHARS = 30;
const MS_PER_SECOND = 1_000;
const ERASE_LINE = '\r\u001b[K';

/** Shows how far a transfer is: on a screen as a bar that moves, else as a line every few seconds. */
export class ProgressBar {
  readonly #terminal: Terminal;
  readonly #startedMs: number;
  #shownMs: number;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#startedMs = terminal.now();
    this.#shownMs = this.#startedMs;
  }

  show(progress: TransferProgress): void {
    const { isScreen } = this.#terminal;
    const nowMs = this.#terminal.now();
    if (nowMs - this.#shownMs < (isScreen ? SCREEN_EVERY_MS : LINE_EVERY_MS)) return;
    this.#shownMs = nowMs;
    const text = formatProgress(progress, nowMs - this.#startedMs);
    const barChars = Math.min(MAX_BAR_CHARS, this.#terminal.columns - text.length - 2);
    this.#terminal.note(isScreen ? `${ERASE_LINE}${formatBar(progress, barChars)}${text}` : `${text}\n`);
  }

  /** Takes the bar away. */
  end(): void {
    if (this.#terminal.isScreen) this.#terminal.note(ERASE_LINE);
  }
}

function formatBar({ checkpointsDone, checkpoints }: TransferProgress, chars: number): string {
  if (chars < 1) return '';
  const full = Math.round((chars * checkpointsDone) / Math.max(1, checkpoints));
  return `${'█'.repeat(full)}${'░'.repeat(chars - full)} `;
}

function formatProgress(progress: TransferProgress, elapsedMs: number): string {
  const { checkpointsDone, checkpoints, threadsDone, threads } = progress;
  const percent = Math.floor((100 * checkpointsDone) / Math.max(1, checkpoints));
  const perSecond = (checkpointsDone * MS_PER_SECOND) / Math.max(1, elapsedMs);
  const left = formatDuration((checkpoints - checkpointsDone) / Math.max(perSecond, 1e-9));
  const counts = `${checkpointsDone}/${checkpoints} checkpoints, thread ${Math.min(threadsDone + 1, threads)}/${threads}`;
  return `${percent} %  ${counts}  ${formatRate(perSecond)}/s  ${left} left`;
}

function formatRate(perSecond: number): string {
  return perSecond < 10 ? perSecond.toFixed(1) : String(Math.round(perSecond));
}

function formatDuration(seconds: number): string {
  const whole = Math.ceil(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
