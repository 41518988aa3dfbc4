import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import { Orchestrator } from '../agent/auto-save.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { LocalCodeExecutor } from '../code/local-code-executor.ts';
import { Fleet } from '../fleet/fleet.ts';
import { FleetRestorer } from '../fleet/fleet-restorer.ts';
import { FleetRunner, superviseFleet } from '../fleet/fleet-runner.ts';
import { compareRuns } from '../repair/compare-runs.ts';
import { intervene } from '../repair/intervene.ts';
import { trial } from '../repair/trial.ts';
import { superviseWorkflow } from '../workflow/supervise.ts';
import { WorkflowExecutor } from '../workflow/workflow-executor.ts';
import { applyRestore } from '../workspace/apply-restore.ts';
import { captureWorkspace } from '../workspace/capture-workspace.ts';
import { planRestore } from '../workspace/plan-restore.ts';

const agents = () => [new StandardAgent({ name: 'a', model: scriptedModel([]) })];
const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });

const parts = { manager };
const judge = () => true;
const ANSWER = { requestId: 'r', answer: 'yes', by: 'ada' };

const BLOCK = { language: 'sh', code: 'exit 1' };
const ofOrchestrator = { agents: [], checkpointManager: manager };
const ofExecutor = { manager, registry: {} };

const agent = () => new StandardAgent({ name: 'a' });
const orchestrator = () => new Orchestrator(ofOrchestrator);

const ofChat = () => ({ chat: new GroupChat({ agents: agents() }), manager, sessionId: 's' });
const ofFleet = () => ({
  fleet: new Fleet({ agents: agents(), model: scriptedModel([]) }),
  manager,
  sessionId: 's',
});
const chatManager = () => new CheckpointingGroupChatManager(ofChat());
const fleetRunner = () => new FleetRunner(ofFleet());
const chats = () => new CheckpointRestorer(parts);
const fleets = () => new FleetRestorer(parts);

describe('options of teams', () => {
  test.each<[object, string]>([
    [{ maxRound: 3 }, 'did you mean "maxRounds"?'],
    [{ maxRounds: '3' }, 'found "3"'],
    [{ end: { signal: ['x'] } }, 'The option "end" of new GroupChat() has the unknown key "signal"'],
    [{ end: { maxTokens: Number.NaN } }, '"end.maxTokens"'],
    [{ agents: undefined }, '"agents" of new GroupChat() must be a list'],
  ])('[input.1] a group with %j is not made', (options, message) => {
    expect(() => new GroupChat({ agents: agents(), ...options } as never)).toThrow(message);
  });

  test.each<[object, string]>([
    [{ maxRoundCounts: 3 }, 'did you mean "maxRoundCount"?'],
    [{ maxRoundCount: '3' }, 'found "3"'],
    [{ maxTokens: -1 }, 'found -1'],
    [{ callbacks: { stream: true } }, 'did you mean "streaming"?'],
  ])('[input.1] a fleet with %j is not made', (options, message) => {
    expect(() => new Fleet({ agents: agents(), model: scriptedModel([]), ...options } as never)).toThrow(message);
  });

  test.each<[string, (given: never) => unknown, object, string]>([
    [
      'a chat manager',
      (given) => new CheckpointingGroupChatManager(given),
      { ...ofChat(), sessionid: 's' },
      'sessionId',
    ],
    ['run() of a chat', (given) => chatManager().run(given), { message: 'Hi', round: 3 }, 'rounds'],
    ['resume() of a chat', (given) => chatManager().resume(given), { answer: { a: 'x' } }, 'answers'],
    ['prompt() of a chat', (given) => chatManager().prompt('Hi', given), { round: 3 }, 'rounds'],
    ['answer() of a chat', (given) => chatManager().answer(given), { ...ANSWER, valeu: 1 }, 'value'],
    ['a fleet runner', (given) => new FleetRunner(given), { ...ofFleet(), onTextt: () => undefined }, 'onText'],
    ['run() of a fleet', (given) => fleetRunner().run(given), { task: 'Go.', tasks: 1 }, 'task'],
    ['runOrResume()', (given) => fleetRunner().runOrResume(given), { task: 'Go.', tasks: 1 }, 'task'],
    ['resume() of a fleet', (given) => fleetRunner().resume(given), { promt: 'Go.' }, 'prompt'],
    ['prompt() of a fleet', (given) => fleetRunner().prompt('Go.', given), { round: 3 }, 'rounds'],
    ['answer() of a fleet', (given) => fleetRunner().answer(given), { ...ANSWER, valeu: 1 }, 'value'],
    ['a restorer', (given) => new CheckpointRestorer(given), { manager, registri: {} }, 'registry'],
    ['a fleet restorer', (given) => new FleetRestorer(given), { manager, registri: {} }, 'registry'],
    ['restore() of a chat', (given) => chats().restore('chk_1', given), { override: {} }, 'overrides'],
    ['restore() of a fleet', (given) => fleets().restore('chk_1', given), { override: {} }, 'overrides'],
    ['continue() of a chat', (given) => chats().continue('chk_1', given), { rounds: 1, promt: 'x' }, 'prompt'],
    ['continue() of a fleet', (given) => fleets().continue('chk_1', given), { promt: 'x' }, 'prompt'],
    [
      'intervene()',
      (given) => intervene(parts, 'chk_1', given),
      { rounds: 1, message: 0, replacment: '' },
      'replacement',
    ],
    [
      'trial()',
      (given) => trial(parts, 'chk_1', given),
      { rounds: 1, repeats: 1, judge, concurency: 2 },
      'concurrency',
    ],
    ['compareRuns()', (given) => compareRuns(parts, given, 'chk_1'), { sessionId: 's', branche: 'b' }, 'branch'],
    ['an agent', (given) => new StandardAgent(given), { name: 'a', systemMesage: 'x' }, 'systemMessage'],
    ['a registry', (given) => new AgentRegistry(given), { tool: [] }, 'tools'],
    [
      'an orchestrator',
      (given) => new Orchestrator(given),
      { ...ofOrchestrator, autoCheckpoints: true },
      'autoCheckpoint',
    ],
    ['reply() of an agent', (given) => agent().reply('Hi', given), { partener: 'x' }, 'partner'],
    ['configure()', (given) => agent().configure(given), { systemMesage: 'x' }, 'systemMessage'],
    ['reply() of one', (given) => orchestrator().reply('a', 'Hi', given), { signl: 1 }, 'signal'],
    ['restore() of one', (given) => orchestrator().restore(given), { allowOthers: true }, 'allowOther'],
    [
      'a workflow executor',
      (given) => new WorkflowExecutor(given),
      { ...ofExecutor, maxConcurency: 1 },
      'maxConcurrency',
    ],
    ['its registry', (given) => new WorkflowExecutor(given), { manager, registry: { function: {} } }, 'functions'],
    ['its lease', (given) => new WorkflowExecutor(given), { ...ofExecutor, lease: { ttlMS: 1 } }, 'ttlMs'],
    [
      'its policy',
      (given) => new WorkflowExecutor(given),
      { ...ofExecutor, humanInTheLoop: { require_aproval_for: [] } },
      'require_approval_for',
    ],
    [
      'superviseWorkflow()',
      (given) => superviseWorkflow(new WorkflowExecutor(ofExecutor), { workflow: 'w' }, given),
      { settings: {}, onRetri: () => undefined },
      'onRetry',
    ],
    [
      'superviseFleet()',
      (given) => superviseFleet(fleetRunner(), given),
      { task: 'Go.', settings: { auto_resume_on_failures: true } },
      'auto_resume_on_failure',
    ],
    ['run() of one', (given) => new WorkflowExecutor(ofExecutor).run(given), { workflow: 'w', inputs: 1 }, 'input'],
    ['pending() of one', (given) => new WorkflowExecutor(ofExecutor).pending(given), { sessionid: 's' }, 'sessionId'],
    ['captureWorkspace()', (given) => captureWorkspace('.', given), { ignored: ['x'] }, 'ignore'],
    ['its context', (given) => captureWorkspace('.', {}, given), { cach: {} }, 'cache'],
    ['planRestore()', (given) => planRestore({}, '.', given), { ignored: ['x'] }, 'ignore'],
    ['applyRestore()', (given) => applyRestore({} as never, given), { forced: true }, 'force'],
    ['a code executor', (given) => new LocalCodeExecutor({ workDir: '.' }, given), { environmnt: {} }, 'environment'],
    ['run() of one', (given) => new LocalCodeExecutor({ workDir: '.' }).run(BLOCK, given), { signl: 1 }, 'signal'],
    ['scriptedModel()', (given) => scriptedModel([], given), { price: {} }, 'prices'],
  ])('[input.1] %s refuses what it does not know before it reads anything', async (_, call, ...[options, meant]) => {
    await expect((async () => call(options as never))()).rejects.toThrow(`did you mean "${meant}"?`);
  });

  test('[input.1] what must be given is asked for', async () => {
    await expect(chats().continue('chk_1', {} as never)).rejects.toThrow(
      '"rounds" of continue() must be a whole number',
    );
    await expect(chatManager().prompt(undefined as never)).rejects.toThrow('The message of prompt() must be a string');
    await expect(fleetRunner().run(undefined as never)).rejects.toThrow('The options of run() must be an object');
    expect(() => new CheckpointRestorer({} as never)).toThrow('must be a CheckpointManager; found undefined');
    expect(() => new WorkflowExecutor(undefined as never)).toThrow(
      'options of new WorkflowExecutor() must be an object',
    );
    expect(() => new WorkflowExecutor({} as never)).toThrow('must be a CheckpointManager; found undefined');
    const executor = new WorkflowExecutor(ofExecutor);
    await expect(superviseWorkflow(executor, undefined as never, { settings: {} })).rejects.toThrow('options of run()');
    await expect(superviseWorkflow(executor, { workflow: 'w' }, {} as never)).rejects.toThrow(
      '"settings" of superviseW',
    );
    await expect(superviseFleet({} as never, {} as never)).rejects.toThrow('The runner of superviseFleet() must be');
    expect(() => orchestrator().track(undefined as never)).toThrow(
      'The agent of track() must be an object with a name',
    );
  });

  test.each(['round', 'speaker', 'messages', 'endReason', 'signal', 'continuedFrom'])(
    '[input.1] metadata of a chat cannot say "%s", which the run sets itself',
    (key) => {
      const options = { ...ofChat(), metadata: { topic: 'x', [key]: 'mine' } };
      expect(() => new CheckpointingGroupChatManager(options)).toThrow(`has the key "${key}"`);
    },
  );

  test('[input.1] metadata of a workflow cannot say "step", which the run sets itself', async () => {
    const run = new WorkflowExecutor(ofExecutor).run({ workflow: 'w', metadata: { step: 'mine' } });
    await expect(run).rejects.toThrow('has the key "step"');
  });

  test.each(['round', 'stalls', 'resets', 'phase', 'endReason', 'continuedFrom'])(
    '[input.1] metadata of a fleet cannot say "%s", which the run sets itself',
    (key) => {
      const options = { ...ofFleet(), metadata: { topic: 'x', [key]: 'mine' } };
      expect(() => new FleetRunner(options)).toThrow(`has the key "${key}"`);
    },
  );
});
