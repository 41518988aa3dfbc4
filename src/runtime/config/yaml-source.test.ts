import { describe, expect, test } from 'vitest';
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
  ['an alias in itself', 'steps: &a\n - input: [*a]', '*a stands inside "&a" itself', '2:12'],
  ['an alias of nothing', 'agents: *nobody', '*nobody repeats "&nobody"', '1:9'],
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
  ['a tag that nobody knows', 'agents: !js/function x', 'Unresolved tag: !js/function', '1:9'],
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
