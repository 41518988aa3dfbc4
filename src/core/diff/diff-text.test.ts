import { expect, test } from 'vitest';
import { processorMs } from '../../../test/support/clock.ts';
import { diffText } from './index.ts';

test('[diff.7] a changed word is shown inside its line', () => {
  expect(diffText('first line\nthe quick fox\nlast', 'first line\nthe slow fox\nlast')).toEqual([
    { op: 'equal', text: 'first line\nthe ' },
    { op: 'remove', text: 'quick' },
    { op: 'add', text: 'slow' },
    { op: 'equal', text: ' fox\nlast' },
  ]);
});

test('[diff.7] added and removed lines stay whole', () => {
  expect(diffText('a\nc\n', 'a\nb\nc\n')).toEqual([
    { op: 'equal', text: 'a\n' },
    { op: 'add', text: 'b\n' },
    { op: 'equal', text: 'c\n' },
  ]);
  expect(diffText('a', '')).toEqual([{ op: 'remove', text: 'a' }]);
  expect(diffText('', '')).toEqual([]);
  expect(diffText('same', 'same')).toEqual([{ op: 'equal', text: 'same' }]);
});

test('[diff.7] two huge texts with nothing in common are one removal and one addition, soon', () => {
  const before = Array.from({ length: 50_000 }, (_, at) => `before ${at}\n`).join('');
  const after = Array.from({ length: 50_000 }, (_, at) => `after ${at}\n`).join('');
  const startMs = processorMs();
  expect(diffText(before, after).map(({ op }) => op)).toEqual(['remove', 'add']);
  expect(processorMs() - startMs).toBeLessThan(5000);
});

test('[diff.7] a huge text with a small change is compared word by word', () => {
  const lines = Array.from({ length: 50_000 }, (_, at) => `line ${at} of many\n`);
  const after = lines.with(25_000, 'line 25000 of few\n');
  expect(diffText(lines.join(''), after.join('')).filter(({ op }) => op !== 'equal')).toEqual([
    { op: 'remove', text: 'many' },
    { op: 'add', text: 'few' },
  ]);
});
