import { expect, test } from 'vitest';
import { ProgressBar, type ProgressMode } from './progress-bar.ts';
import { createTerminal } from './terminal.ts';

/** A bar on a screen of 80 columns whose clock the test moves, and what it wrote. */
function openBar(isTTY = true, mode: ProgressMode = 'always') {
  const written: string[] = [];
  const stderr = { isTTY, columns: 80, write: (text: string) => written.push(text) > 0 };
  const stdout = { ...stderr, rows: 24 };
  const terminal = createTerminal(
    { stdin: { isTTY }, stdout, stderr, env: {} } as unknown as Parameters<typeof createTerminal>[0],
    { color: false },
  );
  const clock = { ms: 0 };
  const bar = new ProgressBar({ ...terminal, columns: 80, now: () => clock.ms }, mode, {
    noun: 'checkpoints',
    total: 1200,
  });
  return { bar, clock, written };
}

test('[cli.20] a bar shows how far it is, the rate and the time left, at most ten times a second, and goes at the end', () => {
  const { bar, clock, written } = openBar();
  bar.show(0);
  clock.ms = 99;
  bar.show(60);
  clock.ms = 2_000;
  bar.show(300);
  bar.end();
  expect(written).toEqual([
    `\r\u001b[K${'░'.repeat(30)} 0 %  0/1200 checkpoints`,
    `\r\u001b[K${'█'.repeat(8)}${'░'.repeat(22)} 25 %  300/1200 checkpoints  150/s  6 s left`,
    '\r\u001b[K',
  ]);
});

test('[cli.20] where nothing can be overwritten it is a line every five seconds', () => {
  const { bar, clock, written } = openBar(false);
  bar.show(0);
  clock.ms = 4_999;
  bar.show(600);
  clock.ms = 6_000;
  bar.show(900);
  bar.end();
  expect(written).toEqual(['0 %  0/1200 checkpoints\n', '75 %  900/1200 checkpoints  150/s  2 s left\n']);
});

test('[cli.20] unless it is asked for, there is none for what takes less than a second', () => {
  const { bar, clock, written } = openBar(true, 'auto');
  bar.show(0);
  clock.ms = 999;
  bar.show(1_199);
  bar.end();
  expect(written).toEqual([]);
  clock.ms = 1_000;
  bar.show(1_200);
  expect(written).toHaveLength(1);
});
