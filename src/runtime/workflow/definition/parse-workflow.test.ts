import { describe, expect, test } from 'vitest';
import type { SavestateError } from '../../../core/errors.ts';
import type { Problem } from '../../config/problem.ts';
import { workflowJsonSchema } from './definition-schema.ts';
import { fingerprintOf } from './fingerprint.ts';
import { findEarly } from './graph-check.ts';
import { defineWorkflow, parseWorkflow } from './parse-workflow.ts';

/** As the requirement has it. */
const REQUIREMENT = `
# workflow.yaml
workflow:
  checkpoint: true

steps:
  - name: expensive_step
    agent: ExpensiveAgent
    checkpoint: true  # Save after this step

  - name: risky_step
    agent: RiskyAgent
    checkpoint: true
`;

function problemsOf(parse: () => unknown): readonly Problem[] {
  try {
    parse();
  } catch (error) {
    expect(error).toMatchObject({ code: 'INVALID_INPUT' });
    return (error as SavestateError).details.problems as Problem[];
  }
  throw new Error('No problems were found.');
}

/** `line:column path: message`, the message cut to what matters. */
function told(text: string): string[] {
  return problemsOf(() => parseWorkflow(text)).map(
    ({ line, column, path, message }) => `${line}:${column} ${path}: ${message}`,
  );
}

const steps = (...lines: string[]): string => `steps:\n${lines.map((line) => `  - ${line}`).join('\n')}\n`;

describe('definitions', () => {
  test('[workflow.1] the YAML of the requirement is accepted as it is', () => {
    const { name, steps: parsed } = parseWorkflow(REQUIREMENT);
    expect(name).toBe('workflow');
    expect(parsed.map(({ id, needs, checkpoint, action }) => [id, needs, checkpoint, action])).toEqual([
      ['expensive_step', [], true, { kind: 'agent', name: 'ExpensiveAgent', input: undefined }],
      ['risky_step', ['expensive_step'], true, { kind: 'agent', name: 'RiskyAgent', input: undefined }],
    ]);
  });

  test('[workflow.1] the same in TypeScript is the same workflow', () => {
    const written = defineWorkflow({
      workflow: { checkpoint: true },
      steps: [
        { name: 'expensive_step', agent: 'ExpensiveAgent', checkpoint: true },
        { name: 'risky_step', agent: 'RiskyAgent', checkpoint: true },
      ],
    });
    expect(written).toEqual(parseWorkflow(REQUIREMENT));
    expect(fingerprintOf(written)).toEqual(fingerprintOf(parseWorkflow(REQUIREMENT)));
  });

  test('[workflow.1] a file may hold the definition together with the settings', () => {
    const text = `workflow:\n  name: both\n  checkpointing: { enabled: true, storage_type: sqlite }\nfleet: {}\n${steps('{ id: a, function: f }')}`;
    expect(parseWorkflow(text).name).toBe('both');
    expect(parseWorkflow(steps('{ id: a, function: f }'), { source: 'flows/pay out.yaml' }).name).toBe('pay_out');
  });

  test('[workflow.3] a step follows the one before it, unless it says what it needs; a group is its members and their end', () => {
    const { steps: parsed } = defineWorkflow({
      steps: [
        { id: 'a', function: 'f' },
        {
          id: 'g',
          when: 'input.go',
          parallel: [
            { id: 'b', function: 'f' },
            { id: 'c', function: 'f', when: 'input.c' },
          ],
        },
        { id: 'd', function: 'f' },
        { id: 'e', function: 'f', needs: [] },
        { id: 'f', function: 'f', needs: 'h' },
        { id: 'h', function: 'f', needs: ['a', 'e'] },
      ],
    });
    expect(parsed.map(({ id, needs }) => [id, needs])).toEqual([
      ['a', []],
      ['e', []],
      ['b', ['a']],
      ['c', ['a']],
      ['h', ['a', 'e']],
      ['g', ['a', 'b', 'c']],
      ['f', ['h']],
      ['d', ['g']],
    ]);
    expect(parsed.find(({ id }) => id === 'c')?.when).toHaveLength(2);
  });

  test('[workflow.2] all problems are told at once, by line and column, with what was probably meant', () => {
    const text = `workflow:
  checkpiont: true
steps:
  - id: fetch
    agnet: Fetcher
  - id: fetch
    function: load
    timeout: soon
  - id: check
    function: check
    needs: [fecth]
    retry: { max_attempts: 0 }
  - id: choose
    function: choose
    on_error: ignore
  - function: nameless
  - id: 9lives
    function: f
  - id: two
    function: f
    agent: g
  - id: wordy
    function: f
    input: "{{ inptu.x }}"
`;
    expect(told(text)).toEqual([
      '2:3 workflow.checkpiont: unknown key "checkpiont". Did you mean "checkpoint"? Known here: max_rounds, max_stalls, max_resets, timeout_seconds, checkpointing, human_in_the_loop, name, description, checkpoint, output.',
      expect.stringMatching(/^5:5 steps\[0\]\.agnet: unknown key "agnet"\. Did you mean "agent"\?/),
      '8:14 steps[1].timeout: must be a duration such as 250ms, 30s, 5m, 2h, 1d, or a number of milliseconds; found "soon".',
      '12:28 steps[2].retry.max_attempts: must be a whole number of 1 or more; found 0.',
      '15:15 steps[3].on_error: must be stop, continue, or { goto: the id of a later step }; found "ignore".',
      '16:5 steps[4]: needs an id.',
      '17:9 steps[5].id: must begin with a letter and have only letters, digits, "_" and "-"; found "9lives".',
      '19:5 steps[6]: must have one of agent, function, workflow, approval, wait, parallel; found agent and function.',
      '24:12 steps[7].input: knows no "inptu". Did you mean "input"? Known here: input, steps.',
    ]);
  });

  test.each<[what: string, text: string, told: string | RegExp]>([
    ['nothing', '', '1:1 : must be a mapping; found null.'],
    ['no steps', 'steps: []', '1:8 steps: must have a step; found a list.'],
    ['bad YAML', 'steps: [', /^1:9 /],
    ['a key twice', 'steps: []\nsteps: []', /^2:1 : Map keys must be unique/],
    [
      'an id twice',
      steps('{ id: a, function: f }', '{ id: a, function: f }'),
      '3:11 steps[1].id: "a" is taken by another step.',
    ],
    [
      'a name that is no id',
      steps('{ name: two words, function: f }'),
      /2:13 steps\[0\]\.name: "two words" cannot be an id/,
    ],
    [
      'an unknown need',
      steps('{ id: fetch, function: f }', '{ id: b, function: f, needs: fetsh }'),
      '3:34 steps[1].needs: there is no step "fetsh". Did you mean "fetch"?',
    ],
    ['itself', steps('{ id: a, function: f, needs: a }'), '2:34 steps[0].needs: "a" needs itself.'],
    [
      'a circle',
      steps('{ id: a, function: f, needs: c }', '{ id: b, function: f }', '{ id: c, function: f }'),
      '2:34 steps[0].needs: the steps wait for each other: a → b → c → a.',
    ],
    [
      'an unknown step in a reference',
      steps('{ id: fetch, function: f }', '{ id: b, function: f, input: "{{ steps.fetsh.output }}" }'),
      '3:34 steps[1].input: there is no step "fetsh". Did you mean "fetch"?',
    ],
    [
      'a step that may not have ended',
      steps('{ id: a, function: f }', '{ id: b, function: f, needs: [], when: steps.a.output }'),
      '3:44 steps[1].when: "a" may not have ended by then; add it to needs.',
    ],
    [
      'a bare step',
      steps('{ id: fetch, function: f }', '{ id: b, function: f, when: fetch.output }'),
      /knows no "fetch"\. Did you mean "steps\.fetch\.output"\?/,
    ],
    ['item outside for_each', steps('{ id: a, function: f, input: "{{ item }}" }'), /knows no "item"/],
    [
      'a broken expression',
      steps('{ id: a, function: f, when: "input. ==" }'),
      /2:33 steps\[0\]\.when: cannot be understood at character 8/,
    ],
    [
      'goto backwards',
      steps('{ id: a, function: f }', '{ id: b, function: f, on_error: { goto: a } }'),
      /steps\[1\]\.on_error\.goto: "a" does not come later/,
    ],
    [
      'goto nowhere',
      steps('{ id: alpha, function: f, on_error: { goto: alfa } }'),
      /there is no step "alfa"\. Did you mean "alpha"\?/,
    ],
    [
      'retry of a wait',
      steps('{ id: a, wait: 5s, retry: { max_attempts: 2 } }'),
      '2:31 steps[0].retry: does not apply to a wait.',
    ],
    [
      'input of an approval',
      steps('{ id: a, approval: { message: Well? }, input: 1 }'),
      /input: does not apply to an approval/,
    ],
    [
      'on_timeout without a timeout',
      steps('{ id: a, approval: { message: Well?, on_timeout: reject } }'),
      /approval\.on_timeout: needs a timeout/,
    ],
    [
      'two loops',
      steps('{ id: a, function: f, for_each: "{{ input }}", repeat: { until: true, limit: 2 } }'),
      /repeat: cannot be together with for_each/,
    ],
    [
      'a group that does something',
      steps('{ id: a, function: f, parallel: [{ id: b, function: f }] }'),
      /steps\[0\]\.function: does not apply to a group/,
    ],
    [
      'a bad output',
      `workflow: { output: "{{ steps.b.output }}" }\n${steps('{ id: a, function: f }')}`,
      /workflow\.output: there is no step "b"/,
    ],
    [
      'a wrong choice',
      steps('{ id: a, approval: { message: Well?, timeout: 1s, on_timeout: rejct } }'),
      /must be one of wait, reject, approve; found "rejct"\. Did you mean "reject"\?/,
    ],
  ])('[workflow.2] %s is a problem with a place', (_, text, expected) => {
    expect(told(text)).toContainEqual(typeof expected === 'string' ? expected : expect.stringMatching(expected));
  });

  test('[workflow.2] a definition in code has the same problems, by path', () => {
    const problems = problemsOf(() => defineWorkflow({ steps: [{ id: 'a', function: 'f', needs: 'b' }] }));
    expect(problems).toEqual([{ path: 'steps[0].needs', message: 'there is no step "b".' }]);
  });

  test.each<[call: string, read: () => unknown, message: string]>([
    ['bytes', () => parseWorkflow(Buffer.from('') as never), 'must be YAML as a string, such as readFileSync(path'],
    ['no text', () => parseWorkflow(undefined as never), 'The text of parseWorkflow() must be YAML'],
    ['an unknown option', () => parseWorkflow('', { sorce: 'x' } as never), 'did you mean "source"?'],
    [
      'no definition',
      () => defineWorkflow(undefined as never),
      'must be an object: { workflow, steps }; found undefined.',
    ],
    ['a text for a definition', () => defineWorkflow('steps: []' as never), 'found "steps: []".'],
  ])('[workflow.2] %s is refused', (_, read, message) => {
    expect(read).toThrow(expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(message) }));
  });

  test('[workflow.2] references from afar are checked without walking the graph for each of them', () => {
    let looks = 0;
    const size = 4_000;
    const steps = Array.from({ length: size }, (_, at) => ({
      id: `s${at}`,
      get needs() {
        looks++;
        return at === 0 ? [] : [`s${at - 1}`];
      },
    }));
    const toHalf = steps.map(({ id }, at) => ({ from: id, to: `s${at >> 1}`, path: [] }));
    expect(findEarly(steps, toHalf)).toEqual([{ from: 's0', to: 's0', path: [] }]);
    expect(looks).toBeLessThan(4 * size);
    const ahead = { from: 's1', to: 's2', path: [] };
    expect(findEarly(steps, [...toHalf.slice(1), ahead])).toEqual([ahead]);
  });

  test('[workflow.2] a text that grows without end by references is refused', () => {
    const bomb = ['a: &a [x, x, x, x, x, x, x, x, x]'];
    for (const [at, name] of [...'bcdefgh'].entries())
      bomb.push(
        `${name}: &${name} [${'*abcdefg'.slice(1)[at] ?? 'a'}]`.replace(
          /\[(\w)\]/,
          '[*$1, *$1, *$1, *$1, *$1, *$1, *$1, *$1, *$1]',
        ),
      );
    expect(() => parseWorkflow(bomb.join('\n'))).toThrow(/[Aa]lias/);
  });
});

describe('for editors and people', () => {
  test('[workflow.2] the JSON Schema knows every key and refuses others', () => {
    const schema = workflowJsonSchema() as {
      properties: { steps: { items: { properties: object; additionalProperties: boolean } } };
    };
    const step = schema.properties.steps.items;
    expect(step.additionalProperties).toBe(false);
    expect(Object.keys(step.properties).sort()).toEqual(
      'agent,approval,checkpoint,description,for_each,function,id,input,name,needs,on_error,operation,parallel,repeat,retry,timeout,wait,when,workflow'.split(
        ',',
      ),
    );
  });
});
