import { expect, test } from 'vitest';
import { escapePattern } from './escape-pattern.ts';

test.each(['u', ''])('an escaped text finds itself and nothing else, with the flags %j', (flags) => {
  const text = '^a.b*c+d?e$f{2}(g)|[h]\\i/j-k';
  const pattern = new RegExp(`^${escapePattern(text)}$`, flags);
  expect(pattern.test(text)).toBe(true);
  expect(pattern.test(text.replace('.', 'x'))).toBe(false);
});
