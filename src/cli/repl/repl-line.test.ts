import { expect, test } from 'vitest';
import { COMMANDS } from '../command-table.ts';
import { readLine, splitWords } from './repl-line.ts';
import { ReplWords } from './repl-words.ts';

const KNOWN = new Set(['revision main', 'revision v1', 'branch main', 'session other', 'command diff']);
const WORDS = new ReplWords(COMMANDS);
const read = (line: string) => readLine(line, WORDS, async (kind, word) => KNOWN.has(`${kind} ${word}`));

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
  'tag good',
  'tag good @',
  'resume 6',
  'resume @{1h ago}',
  'diff @{2 hours ago} @',
  'memory list',
  'memory search Where do I live?',
  'doctor',
  'savestate switch try1',
  'npx savestate log --graph',
  'savestate',
  // with what it does not take: it fails with an explanation, and is not said
  'resume',
  'resume work',
  'use nope',
  'switch nope',
  'branch nope',
  'show nope',
  'run tests',
  'blame plan',
  'back home',
  'fork lift',
  'grep',
  'memory palace',
  'prune everything',
])('[repl.2] "%s" is a command', async (line) => {
  expect(await read(line)).toMatchObject({ kind: 'command' });
});

test.each([
  'hello',
  'show me the plan',
  'show us',
  'resume my report',
  'resume my report about Lisbon',
  'back to work',
  'branch out',
  'branch office hours',
  'help me',
  'tag along',
  'diff please',
  'use metric units',
  'run the tests, please',
  'forget it',
  'follow me',
  'import taxes are too high',
  'memory is a strange thing',
  'savestate is a nice name',
  'yes',
  'now',
  'sure',
  'thanks',
  'Show',
  'where are we?',
  'use the other one',
  'checkpoints are great',
  'blame him',
  'log in to my account',
  'undo that',
])('[repl.2] "%s" is a sentence', async (line) => {
  expect(await read(line)).toMatchObject({ kind: 'prompt', text: line });
});

test('[repl.2] a sentence that looks like a command comes with a hint; an empty line is nothing', async () => {
  expect(await read('show me the plan')).toMatchObject({
    hint: 'If it was meant as a command, write /show me the plan',
  });
  expect(await read('hello')).not.toHaveProperty('hint');
  expect(await read('   ')).toEqual({ kind: 'empty' });
});

test.each([
  'sessions foo',
  'undo everything',
  'quit smoking',
  'shwo',
  'lgo',
  'lgo --graph',
  'sesions',
  'chekpoints 5',
  'rseume @~2',
  'frobnicate @~2',
  'status --short',
  'switch to main',
  'show @~2 @~3',
  'back to 3',
  'savestate lgo',
])('[repl.2] "%s" is neither: it is explained, and not said', async (line) => {
  expect(await read(line)).toEqual({ kind: 'unclear', explanation: expect.stringContaining(`"${line}"`) });
});

test.each([
  ['lgo', 'log'],
  ['shwo', 'show'],
  ['savestate lgo', 'log'],
])('[repl.2] "%s" comes with a suggestion', async (line, meant) => {
  expect(await read(line)).toMatchObject({ explanation: expect.stringContaining(`Did you mean "${meant}"?`) });
});

test('[repl.2] a line in quotes is said, whatever it begins with', async () => {
  expect(await read('"run tests"')).toEqual({ kind: 'prompt', text: 'run tests' });
});

test('[repl.2] words are split as in a shell', () => {
  const line = `fork @~1 --set 'a="b c"' -b "two \\"words\\""`;
  expect(splitWords(line)).toEqual(['fork', '@~1', '--set', 'a="b c"', '-b', 'two "words"']);
  expect(splitWords('fork @{2h ago} -b x@y')).toEqual(['fork', '@{2h ago}', '-b', 'x@y']);
  expect(splitWords('')).toEqual([]);
});
