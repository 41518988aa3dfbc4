import { expect, test } from 'vitest';
import { CallBook } from './call-book.ts';

const called = (id: string, query: string) => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id, name: 'search', args: { query } }],
});
const answered = (id: string, content: string) => ({ role: 'tool', tool_call_id: id, content });

test('calls with the same input and result are alike; the first of them is named, and a call of which the result differs is not one', () => {
  const book = new CallBook([
    called('a', 'prices'),
    answered('a', 'none'),
    called('b', 'prices'),
    answered('b', 'none'),
    called('c', 'prices'),
    answered('c', 'three'),
    called('d', 'prices'),
    answered('d', 'none'),
    called('e', 'prices'),
  ]);
  expect([0, 2, 4, 6, 8].map((index) => book.alike(index, 0))).toEqual([
    {},
    { sameAs: 0, alike: 3 },
    {},
    { sameAs: 0, alike: 3 },
    {},
  ]);
});

test('a result in a message of its own is found for its call, and says which message it answers', () => {
  const book = new CallBook([
    { role: 'user', content: 'Find both.' },
    { ...called('a', 'one'), tool_calls: ['a', 'b'].map((id) => ({ id, name: 'search', args: {} })) },
    answered('a', 'first'),
    answered('b', 'second'),
    answered('z', 'of nobody'),
  ]);
  expect(book.later(1).map(({ output }) => output)).toEqual(['first', 'second']);
  expect([0, 1, 2, 3, 4].map((index) => book.answers(index))).toEqual([undefined, undefined, 1, 1, undefined]);
});
