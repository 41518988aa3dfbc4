import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { Memory } from '../../src/memory/memory.ts';
import { loadWorkflowConfig } from '../../src/runtime/config/load-workflow-config.ts';
import { fleetOptionsFrom } from '../../src/runtime/fleet/fleet-options.ts';
import type { ModelRequest } from '../../src/runtime/model/chat-model.ts';
import { InMemoryCheckpointStorage } from '../../src/storage/memory/memory-storage.ts';
import { temporaryFolder } from '../support/storages.ts';
import { countReplies, createCrew, createRunner } from './crew.ts';

const TASK = { task: 'Find out what is known.' };

/** The options that a `workflow.yaml` gives a fleet. */
const read = (yaml: string) => fleetOptionsFrom(loadWorkflowConfig(yaml));

describe('workflow.yaml', () => {
  test('[settings.1] without anything: 15 rounds, 3 stalls, 2 resets, no review, and the operations of the reference', () => {
    const { settings } = createCrew({}, read('')).fleet.record;
    expect(settings).toMatchObject({ maxRoundCount: 15, maxStallCount: 3, maxResetCount: 2 });
    expect(read('')).toEqual({
      planReview: false,
      humanInTheLoop: {
        enabled: true,
        approval_timeout_seconds: 300,
        auto_reject_on_timeout: false,
        require_approval_for: ['code_execution', 'file_operations', 'external_api_calls', 'sensitive_data_access'],
        trusted_operations: ['web_search', 'data_analysis'],
      },
      callbacks: { streaming: true, progressLedger: true, toolCalls: true },
    });
  });

  test.each([undefined, null, 'workflow: {}', {}, { fleets: {} }, { fleet: { orchestrator: {} } }])(
    '[settings.1] options of %j, which is no read file, are refused',
    (config) => {
      expect(() => fleetOptionsFrom(config as never)).toThrow(
        /^The settings of fleetOptionsFrom\(\) must be what loadWorkf/,
      );
    },
  );

  test('[settings.1] fleet.orchestrator.max_round_count, max_stall_count and max_reset_count are the limits', async () => {
    const limits = read('fleet: { orchestrator: { max_round_count: 6, max_stall_count: 0, max_reset_count: 1 } }');
    const rounds = await createRunner(createCrew({ assess: () => ({}) }, limits)).runner.run(TASK);
    expect(rounds).toMatchObject({ rounds: 6, end: { reason: 'max_rounds' } });
    const stuck = createCrew({ assess: () => ({ loop: true }) }, limits);
    expect(await createRunner(stuck).runner.run(TASK)).toMatchObject({ resets: 1, end: { reason: 'max_resets' } });
  });

  test('[settings.1] workflow.max_rounds, max_stalls and max_resets are limits of a fleet, too', () => {
    const yaml = 'workflow: { max_rounds: 6, max_stalls: 0, max_resets: 1 }';
    expect(read(yaml)).toMatchObject({ maxRoundCount: 6, maxStallCount: 0, maxResetCount: 1 });
  });

  test('[settings.1] fleet.plan_review asks if it is enabled and requires a person', async () => {
    const asks = async (enabled: boolean, require: boolean) => {
      const yaml = `fleet: { plan_review: { enabled: ${enabled}, require_human_approval: ${require} } }`;
      return (await createRunner(createCrew({}, read(yaml))).runner.run(TASK)).status === 'waiting';
    };
    expect([await asks(true, true), await asks(true, false), await asks(false, false)]).toEqual([true, false, false]);
    await expect(asks(false, true)).rejects.toThrow('nobody is asked');
  });

  test('[settings.1] human_in_the_loop decides about operations; enabled: false asks nobody', async () => {
    const yaml = (enabled: boolean) =>
      `workflow: { human_in_the_loop: { enabled: ${enabled}, require_approval_for: [external_api_calls], trusted_operations: [] } }`;
    const operations = { look_up: 'external_api_calls' };
    const asked = createCrew({}, { ...read(yaml(true)), operations });
    expect(await createRunner(asked).runner.run(TASK)).toMatchObject({
      status: 'waiting',
      request: { operation: 'external_api_calls', deadlineMs: expect.any(Number), onTimeout: 'wait' },
    });
    const free = createCrew({}, { ...read(yaml(false)), operations });
    expect(await createRunner(free).runner.run(TASK)).toMatchObject({ status: 'ended' });
  });

  test('[settings.1] fleet.callbacks switches off what a run tells', async () => {
    const yaml = 'fleet: { callbacks: { streaming: false, log_progress_ledger: false, log_tool_calls: false } }';
    const told: string[] = [];
    const { runner } = createRunner(createCrew({}, { ...read(yaml) }), {
      onText: () => told.push('text'),
      onProgressLedger: () => told.push('ledger'),
      onToolCall: () => told.push('tool'),
    });
    expect((await runner.run(TASK)).status).toBe('ended');
    expect(told).toEqual([]);
  });

  test('[settings.1] agents.<name>.runtime is for the agent of that name', () => {
    const { agents } = loadWorkflowConfig('agents: { researcher: { runtime: { stream: false, checkpoint: false } } }');
    const runtime = agents.researcher?.runtime;
    const crew = createCrew({}, runtime === undefined ? {} : { researcher: { runtime } });
    expect(crew.fleet.agent('researcher')?.saveState().runtime).toEqual({
      stream: false,
      store: false,
      checkpoint: false,
    });
  });
});

describe('long-term memory', () => {
  test('[run.14] people teach, agents only with the store flag, once each, and {memory} is filled', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const memory = new Memory({ path: join(temporaryFolder(), 'memory.db'), manager });
    const scope = { userId: 'eve' };
    const speak = () => 'The library closes at eight.';
    const agent = (store: boolean) => ({
      researcher: { systemMessage: 'You look things up. {memory}', runtime: { store } },
    });
    const contents = async () => (await memory.getAll(scope)).map((record) => record.memory).toSorted();
    const hold = (store: boolean, sessionId: string) =>
      createRunner(createCrew({ speak }, agent(store)), { manager, sessionId, memory: { memory, scope } }).runner;
    await hold(false, 'one').run({ task: 'I am allergic to dust. Where can I read?' });
    const [first] = [await contents()];
    expect(first?.join(' ')).toContain('dust');
    expect(first?.join(' ')).not.toContain('library closes');
    await hold(true, 'two').run({ task: 'Where can I read without dust?' });
    expect((await contents()).join(' ')).toContain('library closes at eight');
    const before = await contents();
    await hold(true, 'two').resume();
    expect(await contents()).toEqual(before);
    await hold(true, 'two').resume({ prompt: 'My name is Eve.' });
    expect((await contents()).join(' ')).toContain('Eve');
    const assess = (request: ModelRequest) => ({ satisfied: countReplies(request) > 0, say: 'Is there dust?' });
    const crew = createCrew({ speak, assess }, agent(true));
    await createRunner(crew, { manager, sessionId: 'three', memory: { memory, scope } }).runner.run({
      task: 'Is there dust?',
    });
    expect(crew.model.requests.some(({ system }) => system?.includes('allergic to dust'))).toBe(true);
    await memory.close();
    await manager.close();
  });

  test('[run.13] [run.14] memory is asked with the task and the plan, and who plans is given it, too', async () => {
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const memory = new Memory({ path: join(temporaryFolder(), 'memory.db'), manager });
    await memory.add('I prefer green tea without milk.', { userId: 'eve' });
    const assess = (request: ModelRequest) => ({ satisfied: countReplies(request) > 0, say: 'Do part 1.' });
    const crew = createCrew({ assess }, { researcher: { systemMessage: 'You cook. {memory}' } });
    const { runner } = createRunner(crew, { manager, memory, userId: 'eve' });
    expect((await runner.run({ task: 'I would like some green tea' })).status).toBe('ended');
    const prompts = crew.model.requests.map(({ system }) => system ?? '');
    expect(prompts.every((prompt) => prompt.includes('without milk'))).toBe(true);
    expect(prompts.some((prompt) => prompt.startsWith('You cook.'))).toBe(true);
    expect(prompts.join('\n')).not.toContain('I would like some');
    expect(() => createRunner(createCrew(), { manager, memory })).toThrow('Give the run a userId');
    await memory.close();
    await manager.close();
  });
});
