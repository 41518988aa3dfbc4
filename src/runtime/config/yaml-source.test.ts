import { describe, expect, test } from 'vitest';
import type { SavestateError } from '../../core/errors.ts';
import { parseTeam } from '../chat/team-config.ts';
import { parseWorkflow } from '../workflow/definition/parse-workflow.ts';
import { loadWorkflowConfig } from './load-workflow-config.ts';

const NINE = (name: string): string => `[${Array(9).fill(`*${name}`).join(', ')}]`;

const chain = (count: number, line: (i: number) => string): string =>
  Array.from({ length: count }, (_, i) => line(i + 1)).join('\n');

const TEXTS: [what: string, text: string, problem: string, at: string][] = [
  ['open brackets', '['.repeat(20_000), 'nested more than 100 levels', '1:100'],
  ['brackets', `a:\n  b: ${'['.repeat(3_000)}${']'.repeat(3_000)}`, 'nested more than 100 levels', '2:'],
  ['dashes', `a:\n  ${'- '.repeat(5_000)}x`, 'nested more than 100 levels', '2:'],
  ['an alias bomb', `a: &a [1]\nb: &b ${NINE('a')}\nc: &c ${NINE('b')}\nd: ${NINE('c')}`, 'too many values', '1:1'],
  ['an alias in itself', 'steps: &a\n - input: [*a]', 'this alias stands inside the value that it repeats', '2:12'],
  ['an alias of nothing', 'agents: *nobody', 'this alias repeats a value that is nowhere before it', '1:9'],
  [
    'a long chain of aliases',
    `a0: &a0 [x]\n${chain(400, (i) => `a${i}: &a${i} [*a${i - 1}]`)}`,
    'nested more than 100',
    '101:',
  ],
  [
    'a long chain of merges',
    `%YAML 1.1\n---\na0: &a0 {x: 1}\n${chain(600, (i) => `a${i}: &a${i} {<<: *a${i - 1}}`)}`,
    'nested more than 100',
    '103:',
  ],
  ['many aliases', `a: &a 1\n${chain(2_000, (i) => `b${i}: *a`)}`, 'more than 1000 aliases', '1002:'],
  ['a list as a key', 'steps:\n  [a, b]: 1', 'a list or a map cannot be a key', '2:3'],
  ['a map as a key', '? { a: 1 }\n: b', 'a list or a map cannot be a key', '1:3'],
  [
    'a key that nothing keeps',
    'agents:\n  __proto__: { runtime: { store: true } }',
    '"__proto__" cannot be a key',
    '2:3',
  ],
  ['an alias of it', 'name: &name __proto__\nagents: { *name : {} }', '"__proto__" cannot be a key', '2:11'],
  ['a tag that nobody knows', 'agents: !js/function x', 'this tag is not known', '1:9'],
  ['two documents', 'a: 1\n---\nb: 2', 'begins a second document', '2:1'],
];

const READERS: [name: string, read: (text: string) => unknown][] = [
  ['a workflow', parseWorkflow],
  ['a team', parseTeam],
  ['settings', (text) => loadWorkflowConfig(text)],
  ['a variable', (text) => loadWorkflowConfig('', { env: { SAVESTATE_WORKFLOW_MAX_ROUNDS: text } })],
];

describe.each(READERS)('%s', (name, read) => {
  test.each(TEXTS)('[settings.2] %s is a problem with a place', (...[, text, problem, at]) => {
    let found: unknown;
    try {
      read(text);
    } catch (error) {
      found = error;
    }
    expect(found).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining(problem) });
    const place = name === 'a variable' ? 'SAVESTATE_WORKFLOW_MAX_ROUNDS: ' : at;
    expect(String(found)).toContain(`1 problem:\n  ${place}`);
    expect(String(found).length).toBeLessThan(500);
  });
});

const FOREIGN: [what: string, text: string, at: string][] = [
  ['a line', 'hunter2:x:0 hunter2', '1:1'],
  ['a list', '- hunter2', '1:1'],
  ['keys of others', 'hunter2: hunter2', '1:1'],
  ['a token', 'a: 1\n}hunter2', '2:1'],
  ['an alias', '*hunter2', '1:1'],
  ['a tag', '!hunter2 x', '1:1'],
  ['a directive', '%hunter2 x\n---\na: 1', '1:1'],
  ['an escape', '"\\qhunter2"', '1:2'],
  ['a header', 'a: |hunter2\n x', '1:5'],
  ['an anchor', 'a: &hunter2\u0007x 1', '1:1'],
];

describe.each(READERS.slice(0, 3))('%s', (_, read) => {
  test.each(FOREIGN)(
    '[settings.2] a file of something else (%s) is not quoted: another file may have named it',
    (...[, text, at]) => {
      let found: unknown;
      try {
        read(text);
      } catch (error) {
        found = error;
      }
      expect(found).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining(`:\n  ${at} `) });
      expect(JSON.stringify([String(found), (found as SavestateError).details])).not.toMatch(/hunter2|\\q/);
    },
  );
});
