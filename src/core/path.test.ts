import { expect, test } from 'vitest';
import { formatPath } from './path.ts';

test('a key that looks like markup is quoted as any odd key is; only our own notes stand as they are', () => {
  expect(formatPath(['<script>', 'a', '<key'])).toBe('$["<script>"].a["<key"]');
  expect(formatPath(['bag', '<element>', 'map', '<key a b>', 'list', '<[*]>'])).toBe(
    '$.bag<element>.map<key a b>.list<[*]>',
  );
});
