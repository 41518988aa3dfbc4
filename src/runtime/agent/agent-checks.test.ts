import { expect, test } from 'vitest';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { Fleet } from '../fleet/fleet.ts';
import { FleetRestorer } from '../fleet/fleet-restorer.ts';
import { defineWorkflow } from '../workflow/definition/parse-workflow.ts';
import { WorkflowExecutor } from '../workflow/workflow-executor.ts';
import { Orchestrator } from './auto-save.ts';
import { StandardAgent } from './standard-agent.ts';

const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
const executor = new WorkflowExecutor({ manager, registry: { functions: { f: () => 1 } } });
const workflow = defineWorkflow({ workflow: { name: 'flow' }, steps: [{ id: 'a', function: 'f' }] });
const impostor = { name: 'a', reply: () => 'x' };
const model = scriptedModel(() => 'Fine.', { id: 'm' });
const ann = () => new StandardAgent({ name: 'ann', model });

async function begun(): Promise<string | undefined> {
  const chat = new GroupChat({ agents: [ann()], maxRounds: 1 });
  const place = { checkpoints: manager, sessionId: 'trip', logs: false } as const;
  const { checkpointId } = await new CheckpointingGroupChatManager({ chat, ...place }).run({ message: 'Hello' });
  return checkpointId;
}

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
  ['a tool', () => new StandardAgent({ name: 'a', tools: [{ name: 'x' }] } as never), 'lacks description, input, run'],
  [
    'a flag',
    () => new StandardAgent({ name: 'a', runtime: { chekpoint: false } } as never),
    'did you mean "checkpoint"?',
  ],
  ['new Fleet()', () => new Fleet(undefined as never), 'The options of new Fleet() must be an object'],
  ['new GroupChat()', () => new GroupChat(undefined as never), 'The options of new GroupChat() must be an object'],
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
  ['no source', () => new FleetRestorer({ checkpoints: manager }).continue(undefined as never), 'named by no id'],
  [
    'a path',
    () => new CheckpointRestorer({ checkpoints: manager }).continue({ path: 'x.json' } as never, { rounds: 1 }),
    '"path" is not an option of a checkpoint that is named by no id; known: file',
  ],
  [
    'an override',
    async () =>
      new CheckpointRestorer({ checkpoints: manager }).continue((await begun()) ?? '', {
        rounds: 1,
        overrides: { agents: { ann: { systemMesage: 'x' } } },
      } as never),
    '"systemMesage" is not an option of overrides.agents.ann; did you mean "systemMessage"?',
  ],
])('[input.1] %s: what cannot be used is said in a sentence', async (_, wrong, message) => {
  const error = await new Promise((resolve) => resolve(wrong())).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ code: 'INVALID_INPUT', message: expect.stringContaining(message) });
});
