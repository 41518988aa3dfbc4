import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'vitest';
import { evaluate } from '../../../src/core/expression/evaluate.ts';
import { parseExpression } from '../../../src/core/expression/parse-expression.ts';
import { CheckpointManager } from '../../../src/manager/checkpoint-manager.ts';
import { parseTeam } from '../../../src/runtime/chat/team-config.ts';
import { loadWorkflowConfig } from '../../../src/runtime/config/load-workflow-config.ts';
import { parseProgressLedger } from '../../../src/runtime/fleet/progress-ledger.ts';
import { parseWorkflow } from '../../../src/runtime/workflow/definition/parse-workflow.ts';
import { parseTemplate, render } from '../../../src/runtime/workflow/definition/template.ts';
import { InMemoryCheckpointStorage } from '../../../src/storage/memory/memory-storage.ts';
import { trials } from '../../support/trials.ts';
import { fuzz } from './fuzz.ts';
import { anyText, mutateText } from './mutate.ts';

const EXPRESSIONS = [
  'steps.ask.output.score >= 3 and not (input.kind in ["a", "b"])',
  'length(items) > 0 or items[-1].name == "x"',
  'items[*].name',
  '1 + 2 * 3 - 4 / 5 % 6',
  'lower(trim(name)) == "a" and matches(name, "^a.*z$")',
  "default(missing.path, null) != 'quoted \\' text'",
] as const;

const VALUES: Record<string, unknown> = {
  steps: { ask: { output: { score: 4 } } },
  input: { kind: 'a' },
  items: [{ name: 'x' }, { name: 'y' }],
  name: ' Az ',
};

test('an expression is computed, or refused with an error that says where', async () => {
  await fuzz('expressions', {
    trials: trials(20_000),
    draw: (random) => mutateText(random, random.pick(EXPRESSIONS), EXPRESSIONS),
    run: (text) => void evaluate(parseExpression(text), (name) => VALUES[name]),
  });
  await fuzz('templates', {
    trials: trials(20_000),
    draw: (random) => mutateText(random, `Say {{ ${random.pick(EXPRESSIONS)} }} and {{ name }}.`, EXPRESSIONS),
    run: (text) => void render(parseTemplate({ text: [text] }), (name) => VALUES[name]),
  });
});

const example = (path: string) => readFileSync(join(import.meta.dirname, '../../../examples', path), 'utf8');
const WORKFLOW = example('workflow/refund.yaml');
const TEAM = example('team/team.yaml');
const CONFIG = `workflow:
  max_rounds: 20
  checkpointing:
    enabled: true
    storage_type: sqlite
    storage_path: ./a.db
`;

const YAML = [WORKFLOW, TEAM, CONFIG, 'a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n'] as const;

test.each([
  ['workflows', WORKFLOW, (text: string) => parseWorkflow(text)],
  ['teams', TEAM, (text: string) => parseTeam(text)],
  ['settings', CONFIG, (text: string) => loadWorkflowConfig(text)],
] as const)('%s are read, or refused with an error that says where', async (name, sample, read) => {
  await fuzz(`yaml, ${name}`, {
    trials: trials(5_000),
    draw: (random) => mutateText(random, sample, YAML),
    run: (text) => void read(text),
  });
});

test('a revision names a checkpoint, or is refused with an error that says why', async () => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  const ids = [];
  for (let n = 0; n < 5; n++)
    ids.push(await session.save({ messages: Array.from({ length: n }, () => ({ role: 'user', content: 'x' })) }));
  await session.tag('v1');
  const known = [
    '@',
    '@~2',
    '@^',
    'v1',
    'main',
    'main~1',
    'message 3',
    'round 2',
    '10 minutes ago',
    '2026-01-01T00:00:00Z',
    'before:v1',
    ids[0] ?? '',
    (ids[1] ?? '').slice(0, 12),
    's:main',
    's@v1',
    '@{1}',
  ];
  await fuzz('revisions', {
    trials: trials(20_000),
    draw: (random) =>
      random.below(2) === 0
        ? anyText(random, known)
        : `${anyText(random, known)}${anyText(random, ['~', '^', '~1', ':', '@', ' ', '..'])}${anyText(random, known)}`,
    run: async (text) => {
      const found = await Promise.allSettled([session.find(text), manager.open(text)]);
      for (const each of found) if (each.status === 'rejected') await Promise.reject(each.reason as Error);
    },
  });
});

test('a ledger is found in whatever a model says, or what is wrong with it is said', async () => {
  const entry = (answer: unknown) => ({ reason: 'so', answer });
  const ledger = JSON.stringify({
    is_request_satisfied: entry(false),
    is_in_loop: entry('no'),
    is_progress_being_made: entry(true),
    next_speaker: entry('writer'),
    instruction_or_question: entry('Go on.'),
  });
  const said = [
    `Here it is: ${ledger}`,
    `\`\`\`json\n${ledger}\n\`\`\``,
    ledger.replaceAll('"', "'"),
    '{ a: &a [1], b: *a }',
  ] as const;
  await fuzz('ledgers', {
    trials: trials(5_000),
    draw: (random) => mutateText(random, random.pick(said), said),
    run: (text) => void parseProgressLedger(text, ['writer', 'critic']),
  });
});
