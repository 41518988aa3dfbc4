import { expect, test } from 'vitest';
import { formatPath, formatShortPath } from './path.ts';

test('a key that looks like markup is quoted as any odd key is; only our own notes stand as they are', () => {
  expect(formatPath(['<script>', 'a', '<key'])).toBe('$["<script>"].a["<key"]');
  expect(formatPath(['bag', '<element>', 'map', '<key a b>', 'list', '<[*]>'])).toBe(
    '$.bag<element>.map<key a b>.list<[*]>',
  );
});

test('a long path is shown by its two ends, a short one whole', () => {
  expect(formatShortPath(['a', 3])).toBe('$.a[3]');
  const short = formatShortPath(['first', ...Array.from({ length: 500 }, () => 'next'), 'last']);
  expect(short).toMatch(/^\$\.first(\.next)+\S* … \S*(\.next)+\.last$/);
  expect(short.length).toBeLessThan(130);
});
