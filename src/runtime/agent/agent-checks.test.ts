import { expect, test } from 'vitest';
import { z } from 'zod';
import { z as zod3 } from 'zod/v3';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { Fleet } from '../fleet/fleet.ts';
import { FleetRestorer } from '../fleet/fleet-restorer.ts';
import { FleetRunner } from '../fleet/fleet-runner.ts';
import { defineWorkflow } from '../workflow/definition/parse-workflow.ts';
import { WorkflowExecutor } from '../workflow/workflow-executor.ts';
import { Orchestrator } from './auto-save.ts';
import { StandardAgent } from './standard-agent.ts';
import { defineTool } from './tool.ts';

const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
const executor = new WorkflowExecutor({ manager, registry: { functions: { f: () => 1 } } });
const workflow = defineWorkflow({ workflow: { name: 'flow' }, steps: [{ id: 'a', function: 'f' }] });
const impostor = { name: 'a', reply: () => 'x' };
const model = scriptedModel(() => 'Fine.', { id: 'm' });
const ann = () => new StandardAgent({ name: 'ann', model });

let trips = 0;

async function begun(): Promise<string | undefined> {
  const chat = new GroupChat({ agents: [ann()], maxRounds: 1 });
  const place = { manager, sessionId: `trip${++trips}`, logs: false } as const;
  const { checkpointId } = await new CheckpointingGroupChatManager({ chat, ...place }).run({ message: 'Hello' });
  return checkpointId;
}

const alone = () => new GroupChat({ agents: [ann()] });
const REGISTRY = 'must be an AgentRegistry: new AgentRegistry({ tools, models, ... }); found an object.';

const look = { name: 'look', description: 'Looks.', input: z.object({}), run: () => 1 };
const TOOL_PARTS: [what: string, part: object, message: string][] = [
  ['a JSON Schema', { input: { type: 'object' } }, 'found an object. Of a JSON Schema, pass z.fromJSONSchema(schema).'],
  [
    'zod 3',
    { input: zod3.object({}) },
    'must be a schema of zod 4, such as z.object({ city: z.string() }); found a Zod',
  ],
  ['no schema', { input: 5 }, 'must be a schema of zod 4'],
  ['no function', { run: 5 }, 'run" of '],
  ['no description', { description: 5 }, 'must be a string; found 5.'],
  ['a wrong name', { name: 'a b' }, 'must be 1 to 64 letters, digits, "_" or "-"; found "a b".'],
];

test.each<[call: string, wrong: () => unknown, message: string]>([
  ['run()', () => executor.run(undefined as never), 'The options of run() must be an object; found undefined'],
  ['run({})', () => executor.run({} as never), '"workflow" of run() must be a workflow'],
  ['run a bare object', () => executor.run({ workflow: {} } as never), '"workflow" of run() must be a workflow'],
  ['onDifference', () => executor.run({ workflow, onDifference: 'fial' } as never), 'must be one of "fail", "warn"'],
  ['timers', () => executor.run({ workflow, timers: 'slep' } as never), 'must be one of "sleep", "return"'],
  ['new StandardAgent()', () => new StandardAgent(undefined as never), 'The options of new StandardAgent() must be'],
  [
    'a model',
    () => new StandardAgent({ name: 'a', model: 'gpt-4' } as never),
    'found "gpt-4". Name a model in llmConfig',
  ],
  ...TOOL_PARTS.flatMap(([what, part, message]): [string, () => unknown, string][] => [
    [`tools: ${what}`, () => new StandardAgent({ name: 'a', tools: [{ ...look, ...part }] } as never), message],
    [`defineTool(): ${what}`, () => defineTool({ ...look, ...part } as never), message],
  ]),
  [
    'defineTool()',
    () => defineTool(undefined as never),
    'The options of defineTool() must be an object; found undefined',
  ],
  ['a tool', () => new StandardAgent({ name: 'a', tools: [{ name: 'x' }] } as never), 'lacks description, input, run'],
  [
    'a flag',
    () => new StandardAgent({ name: 'a', runtime: { chekpoint: false } } as never),
    'did you mean "checkpoint"?',
  ],
  ['new Fleet()', () => new Fleet(undefined as never), 'The options of new Fleet() must be an object'],
  ['new GroupChat()', () => new GroupChat(undefined as never), 'The options of new GroupChat() must be an object'],
  [
    'a seed without chance',
    () => new GroupChat({ agents: [ann()], seed: 7, speakerSelection: 'round_robin' }),
    'A seed has an effect with speakerSelection "random" only.',
  ],
  [
    'no agent',
    () => new GroupChat({ agents: [impostor] } as never),
    '"agents[0]" of new GroupChat() must be a StandardAgent',
  ],
  [
    'a bare fleet',
    () => new Fleet({ agents: [impostor], model } as never),
    '"agents[0]" of new Fleet() must be a StandardAgent',
  ],
  [
    'new Orchestrator()',
    () => new Orchestrator(undefined as never),
    'The options of new Orchestrator() must be an object',
  ],
  [
    'no list',
    () => new Orchestrator({ agents: impostor, checkpointManager: manager } as never),
    '"agents" of new Orch',
  ],
  ['no manager', () => new Orchestrator({ agents: [] } as never), '"checkpointManager" of new Orchestrator() must be'],
  [
    'flags',
    () =>
      new Orchestrator({
        agents: [ann()],
        checkpointManager: manager,
        runtime: { ann: { chekpoint: false } },
      } as never),
    'did you mean "checkpoint"?',
  ],
  [
    'flags of nobody',
    () => new Orchestrator({ agents: [ann()], checkpointManager: manager, runtime: { anne: { checkpoint: false } } }),
    'did you mean "ann"?',
  ],
  [
    'heard nothing',
    () => ann().receive({ name: 'user' } as never, 'user'),
    'The content of a message must be a string',
  ],
  ['a misspelt key', () => ann().reply({ rol: 'user', content: 'x' } as never), 'did you mean "role"?'],
  ['heard a number', () => ann().receive(5 as never, 'user'), 'A message must be an object; found 5'],
  ['heard from nobody', () => ann().receive('Hello', undefined as never), 'The partner of a conversation must be'],
  ['a role', () => ann().receive({ role: 'system', content: 'x' } as never, 'user'), 'without the name of who speaks'],
  ['a turn', () => ann().receive({ name: 'b', content: 'x', turn: 5 } as never, 'user'), '"turn" of a message must be'],
  ['a copy', () => ann().rewriteHistory('user', [{ name: 'user' }] as never), 'The content of a message must be'],
  [
    'said a number',
    () => new GroupChat({ agents: [ann()] }).append(5 as never),
    'A message must be an object; found 5',
  ],
  [
    'an edit',
    () => {
      const chat = new GroupChat({ agents: [ann()] });
      chat.append('Hello');
      chat.edit(0, 5 as never);
    },
    'The content of a message must be a string; found 5',
  ],
  ['a registry', () => new GroupChat({ agents: [ann()], registry: {} } as never), REGISTRY],
  ['a registry of a fleet', () => new Fleet({ agents: [ann()], model, registry: {} } as never), REGISTRY],
  [
    'a registry of an orchestrator',
    () => new Orchestrator({ agents: [ann()], checkpointManager: manager, registry: {} } as never),
    REGISTRY,
  ],
  ['a registry of a restorer', () => new FleetRestorer({ manager, registry: {} } as never), REGISTRY],
  [
    'a registry of nobody',
    () => ann().reply('x', { registry: {} } as never),
    '"registry" of reply() must be an AgentReg',
  ],
  [
    'an agent without reply',
    () => new WorkflowExecutor({ manager, registry: { agents: { a: {} } } } as never),
    '"registry.agents["a"]" of new WorkflowExecutor() must be an object with reply(); found an object.',
  ],
  [
    'no chat',
    () => new CheckpointingGroupChatManager({ chat: {}, manager, sessionId: 's' } as never),
    '"chat" of new CheckpointingGroupChatManager() must be a GroupChat: new GroupChat({ agents, ... }); found an object.',
  ],
  [
    'no fleet',
    () => new FleetRunner({ fleet: {}, manager, sessionId: 's' } as never),
    '"fleet" of new FleetRunner() must be a Fleet: new Fleet({ agents, ... }); found an object.',
  ],
  ['no message', () => ann().reply(null as never), 'A message must be an object; found null.'],
  ['no prompt', () => alone().prompt(5 as never, 1), 'The message of prompt() must be a string; found 5.'],
  ['reopen()', () => alone().reopen(undefined as never), 'The options of reopen() must be an object; found undefined.'],
  [
    'reopen with a slip',
    () => alone().reopen({ rounds: 1, stripSignals: true } as never),
    'did you mean "stripSignal"?',
  ],
  ['no event', () => manager.on(undefined as never, () => 1), 'The event of on() must be one of "checkpoint_saved", '],
  [
    'a language',
    () => new StandardAgent({ name: 'a', codeExecution: { workDir: 'w', languages: ['cobol'] } }),
    'codeExecution.languages[0] must be one of javascript, js, ',
  ],
  [
    'a slip in codeExecution',
    () => new StandardAgent({ name: 'a', codeExecution: { workDir: 'w', envs: ['X'] } as never }),
    'did you mean "env"?',
  ],
  [
    'a chat for an agent',
    async () => manager.restore((await begun()) ?? '', { factory: ann }),
    'This is the state of a group chat, not of an agent. Restore it with a CheckpointRestorer.',
  ],
  ['no source', () => new FleetRestorer({ manager }).continue(undefined as never), 'A checkpoint id must be'],
  [
    'a path',
    () => new CheckpointRestorer({ manager }).continue({ path: 'x.json' } as never, { rounds: 1 }),
    '"path" is not an option of a checkpoint that is named by no id; known: file',
  ],
  [
    'an override',
    async () =>
      new CheckpointRestorer({ manager }).continue((await begun()) ?? '', {
        rounds: 1,
        overrides: { agents: { ann: { systemMesage: 'x' } } },
      } as never),
    '"systemMesage" is not an option of overrides.agents.ann; did you mean "systemMessage"?',
  ],
])('[input.1] %s: what cannot be used is said in a sentence', async (_, wrong, message) => {
  const error = await new Promise((resolve) => resolve(wrong())).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining(message) });
  expect(error).toMatchObject({ message: expect.not.stringMatching(/[.?][.?]$/) });
});

test.each([5, null, { answer: 'x' }])('[input.1] ask() that answers %j fails the run with a sentence', async (said) => {
  const chat = new GroupChat({ agents: [new StandardAgent({ name: 'bob', humanInputMode: 'ALWAYS' })], maxRounds: 1 });
  const options = {
    chat,
    manager,
    sessionId: `asks${++trips}`,
    logs: false,
    ask: async () => said,
  } as never;
  const result = await new CheckpointingGroupChatManager(options).run({ message: 'Hello' });
  const message = expect.stringMatching(/^The answer of ask\(\) must be a string, or undefined to wait; found /);
  expect(result).toMatchObject({ status: 'failed', error: { code: 'INVALID_INPUT', message } });
});
