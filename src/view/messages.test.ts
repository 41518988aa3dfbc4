import { describe, expect, test } from 'vitest';
import { toEvents } from './drift-history.ts';
import { readParts } from './messages.ts';

const CALL = { id: 'c1', name: 'search', input: { q: 'x' } };
const RESULT = { id: 'c1', name: 'search', output: 'found', isError: false };

/** One call and its result, as each framework writes them. */
const FORMS: readonly (readonly [name: string, call: unknown, result: unknown])[] = [
  [
    'the AI SDK',
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'I look.' },
        { type: 'tool-call', toolCallId: 'c1', toolName: 'search', input: { q: 'x' } },
      ],
    },
    {
      role: 'tool',
      content: [
        { type: 'tool-result', toolCallId: 'c1', toolName: 'search', output: { type: 'text', value: 'found' } },
      ],
    },
  ],
  [
    'OpenAI',
    {
      role: 'assistant',
      content: 'I look.',
      tool_calls: [{ id: 'c1', type: 'function', function: { name: 'search', arguments: { q: 'x' } } }],
    },
    { role: 'tool', tool_call_id: 'c1', name: 'search', content: 'found' },
  ],
  [
    'Anthropic',
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'I look.' },
        { type: 'tool_use', id: 'c1', name: 'search', input: { q: 'x' } },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'c1', content: 'found' }] },
  ],
];

describe.each(FORMS)('messages of %s', (form, call, result) => {
  test('have their calls and results apart from their words', () => {
    expect(readParts(call)).toEqual({ speaker: 'assistant', text: 'I look.', calls: [CALL], results: [] });
    const named = form === 'Anthropic' ? { ...RESULT, name: 'tool' } : RESULT;
    expect(readParts(result)).toMatchObject({ text: '', calls: [], results: [named] });
  });

  test('are watched for drift as calls, not as words', () => {
    expect(toEvents(call, new Date(7)).map(({ kind }) => kind)).toEqual(['call', 'message']);
    expect(toEvents(result, new Date(7)).map(({ kind }) => kind)).toEqual(['result']);
  });
});

test('the calls of a turn come before what was said', () => {
  const turn = [
    { role: 'assistant', content: [{ type: 'tool-call', toolCallId: 'c1', toolName: 'search', input: { q: 'x' } }] },
  ];
  const message = { role: 'assistant', name: 'ann', content: 'Done.', turn };
  expect(readParts(message)).toEqual({ speaker: 'ann', text: 'Done.', calls: [CALL], results: [] });
});

test('what is no message is shown as it is', () => {
  expect(readParts(42)).toEqual({ speaker: '', text: '42', calls: [], results: [] });
});
