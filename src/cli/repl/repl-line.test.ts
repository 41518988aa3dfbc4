import { expect, test } from 'vitest';
import { readLine, splitWords } from './repl-line.ts';

const KNOWN = new Set(['revision main', 'revision v1', 'branch main', 'session other', 'command diff']);
const read = (line: string) => readLine(line, async (kind, word) => KNOWN.has(`${kind} ${word}`));

test.each([
  'checkpoints',
  'checkpoints 5',
  'list-checkpoints',
  'resume main',
  'resume chk_01m7h',
  'resume 01m7h7a57v',
  'back',
  'back 3',
  'show',
  'show @~2',
  'show #3',
  'show @:messages[0]',
  'diff v1 main',
  'fork -b try',
  'fork main -b "a name"',
  'branch',
  'branch main',
  'use other',
  'tag v-1',
  'tag v-1 main',
  'blame $.plan',
  'grep refund',
  'help',
  'help diff',
  'quit',
  '/show me the plan',
  '/anything at all',
])('[Z31] "%s" is a command', async (line) => {
  expect(await read(line)).toMatchObject({ kind: 'command' });
});

test.each([
  'hello',
  'show me the plan',
  'show us',
  'resume work',
  'resume',
  'back to work',
  'back home',
  'branch out',
  'help me',
  'quit smoking',
  'tag along',
  'fork lift',
  'diff please',
  'where are we?',
  'use the other one',
  'checkpoints are great',
  'blame him',
  'log in to my account',
  'grep',
  'undo that',
])('[Z31] "%s" is a sentence', async (line) => {
  expect(await read(line)).toMatchObject({ kind: 'prompt', text: line });
});

test('[Z31] a sentence that looks like a command comes with a hint; an empty line is nothing', async () => {
  expect(await read('show me the plan')).toMatchObject({
    hint: 'If it was meant as a command, write /show me the plan',
  });
  expect(await read('hello')).not.toHaveProperty('hint');
  expect(await read('   ')).toEqual({ kind: 'empty' });
});

test('[Z31] words are split as in a shell', () => {
  const line = `fork @~1 --set 'a="b c"' -b "two \\"words\\""`;
  expect(splitWords(line)).toEqual(['fork', '@~1', '--set', 'a="b c"', '-b', 'two "words"']);
  expect(splitWords('')).toEqual([]);
});
