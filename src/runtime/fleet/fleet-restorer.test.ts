import { describe, expect, test } from 'vitest';
import { type Crew, countReplies, createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { LATER } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { AgentRegistry } from '../agent/agent-registry.ts';
import type { ModelRequest } from '../model/chat-model.ts';
import { FleetRestorer } from './fleet-restorer.ts';
import { parseFleetState } from './fleet-state.ts';

const TASK = { task: 'Find out what is known.' };
const long = { assess: (request: ModelRequest) => ({ satisfied: countReplies(request) >= 3 }) };

type Told = { readonly crew: Crew; readonly manager: CheckpointManager; readonly all: readonly Checkpoint[] };

/** A fleet that came to its end, with its checkpoints in order. */
async function finished(crew = createCrew(long)): Promise<Told> {
  const { runner, manager } = createRunner(crew);
  expect((await runner.run(TASK)).status).toBe('ended');
  const { checkpoints: all } = await manager.list({ sessionId: 'crew' });
  return { crew, manager, all: all.toReversed() };
}

/** What a fleet is without what only its history says. */
async function endingOf(manager: CheckpointManager, id: string | undefined) {
  const { fleet, agents } = parseFleetState(await manager.load(id ?? ''));
  return { fleet, agents };
}

describe('continuing', () => {
  test(
    '[run.9] from every checkpoint a fleet is rebuilt and goes on as a new branch, to the same end',
    LATER,
    async () => {
      const { crew, manager, all } = await finished();
      const expected = await endingOf(manager, all.at(-1)?.id);
      const restorer = new FleetRestorer({ manager, registry: crew.registry });
      for (const { id } of all) {
        const { report, status, branch, checkpointId, originId } = await restorer.continue(id);
        expect([report, status, originId]).toEqual([{ status: 'complete', differences: [] }, 'ended', id]);
        expect(branch).not.toBe('main');
        expect(await endingOf(manager, checkpointId)).toEqual(expected);
      }
      expect((await manager.branches('crew')).length).toBe(all.length + 1);
      expect((await manager.verify()).findings).toEqual([]);
    },
  );

  test('[run.9] a frozen continuation makes no call, and a recorded one none before it differs', async () => {
    const { crew, manager, all } = await finished();
    const restorer = new FleetRestorer({ manager, registry: crew.registry });
    const begun = all[1]?.id ?? '';
    const before = crew.model.requests.length;
    const frozen = await restorer.continue(begun, { mode: 'frozen' });
    expect([frozen.status, crew.model.requests.length, crew.calls.length]).toEqual(['ended', before, 3]);
    const other = { agents: { writer: { systemMessage: 'You write verse.' } } };
    const recorded = await restorer.continue(begun, { mode: 'recorded', overrides: other });
    expect([recorded.status, crew.model.requests.length]).toEqual(['ended', before]);
    const changed = { agents: { researcher: { systemMessage: 'You look up everything.' } } };
    await restorer.continue(begun, { mode: 'recorded', overrides: changed });
    expect(crew.model.requests.length).toBeGreaterThan(before);
    const mismatch = restorer.continue(begun, { mode: 'frozen', overrides: changed });
    await expect(mismatch).rejects.toMatchObject({ code: 'REPLAY_MISMATCH' });
  });

  test('[run.9] a frozen replay takes what people said from the recording', async () => {
    const crew = createCrew(long, { planReview: true, humanInTheLoop: { require_approval_for: ['look_up'] } });
    const { runner, manager } = createRunner(crew);
    let result = await runner.run(TASK);
    while (result.status === 'waiting') {
      await runner.answer({ requestId: result.request.id, answer: 'approve', by: 'Ann' });
      result = await runner.resume();
    }
    const { checkpoints: all } = await manager.list({ sessionId: 'crew', branch: 'main' });
    const restorer = new FleetRestorer({ manager, registry: crew.registry });
    const [calls, first] = [crew.model.requests.length, all.at(-1)];
    expect(first?.trigger).toBe('fleet_start');
    const again = await restorer.continue(first?.id ?? '', { mode: 'frozen' });
    expect(again).toMatchObject({ status: 'ended', messages: result.messages, totals: result.totals });
    expect(crew.model.requests.length).toBe(calls);
  });

  test('[run.9] a prompt at any checkpoint, and a number of rounds', async () => {
    const { crew, manager, all } = await finished();
    const restorer = new FleetRestorer({ manager, registry: crew.registry });
    const round = all.find(({ metadata }) => metadata?.round === 1)?.id ?? '';
    const prompted = await restorer.continue(round, { prompt: 'In French.', branch: 'french', reason: 'what if' });
    expect(prompted).toMatchObject({ branch: 'french', status: 'ended' });
    expect(prompted.messages).toContainEqual({ name: 'user', content: 'In French.' });
    expect(await restorer.continue(round, { rounds: 1 })).toMatchObject({ rounds: 2, end: { reason: 'max_rounds' } });
    const ended = await restorer.continue(all.at(-1)?.id ?? '', { rounds: 5 });
    expect(ended).toMatchObject({ rounds: 4, end: { reason: 'satisfied' }, checkpointId: all.at(-1)?.id });
    const main = await manager.branches('crew');
    expect(main.find(({ branch }) => branch === 'main')?.headId).toBe(all.at(-1)?.id);
  });

  test.each(STORAGES.filter(([name]) => name === 'sqlite' || name === 'file'))(
    '[run.9] by another process (%s)',
    async (_, create) => {
      const { storage, reopen } = create();
      const { runner, manager } = createRunner(createCrew(long), { storage });
      const { checkpointId } = await runner.run(TASK);
      const other = createRunner(createCrew(long), { storage: reopen?.() ?? storage }).manager;
      const restorer = new FleetRestorer({ manager: other, registry: createCrew(long).registry });
      expect(await restorer.continue(checkpointId ?? '', { prompt: 'More.' })).toMatchObject({ status: 'ended' });
      await other.close();
      await manager.close();
    },
  );
});

describe('what is not as it was', () => {
  test('[run.7] what is not registered is listed item by item, and going on has to be allowed', async () => {
    const { manager, all, crew } = await finished();
    const id = all[2]?.id ?? '';
    const empty = new FleetRestorer({ manager, registry: new AgentRegistry() });
    const { report } = await empty.restore(id, { onDifference: 'accept' });
    expect(report.status).toBe('partial');
    expect(report.differences.map(({ text }) => text)).toEqual([
      'The tool "look_up" of "researcher" is not registered.',
      'The model "crew" of "researcher" is not registered.',
      'The model "crew" of "writer" is not registered.',
      'The model "crew" of "orchestrator" is not registered.',
    ]);
    await expect(empty.continue(id)).rejects.toThrow('Register what is missing');
    const modelOnly = new FleetRestorer({ manager, registry: new AgentRegistry({ models: { crew: crew.model } }) });
    const partial = await modelOnly.continue(id, { onDifference: 'warn' });
    expect(partial.report).toMatchObject({ status: 'partial', differences: [{ kind: 'missing' }] });
  });

  test('[run.7] a changed tool is refused, reported or accepted; overrides are no difference', async () => {
    const { manager, all, crew } = await finished();
    const id = all[2]?.id ?? '';
    const known = crew.registry.tool('look_up');
    const changed = { ...known, description: 'Looks up something else.' } as NonNullable<typeof known>;
    const registry = new AgentRegistry({ tools: [changed], models: { crew: crew.model } });
    const restorer = new FleetRestorer({ manager, registry });
    await expect(restorer.restore(id)).rejects.toThrow('The tool "look_up" of "researcher" changed.');
    expect((await restorer.restore(id, { onDifference: 'warn' })).report.differences).toHaveLength(1);
    expect(
      (await restorer.restore(id, { onDifference: 'accept' })).fleet.agent('researcher')?.saveState().tools,
    ).not.toEqual((await restorer.restore(id, { onDifference: 'warn' })).fleet.agent('researcher')?.saveState().tools);
    const overrides = { agents: { writer: { systemMessage: 'Other.' } }, settings: { maxRoundCount: 3 } };
    const plain = new FleetRestorer({ manager, registry: crew.registry });
    const { fleet, report } = await plain.restore(id, { overrides });
    expect([report.status, fleet.agent('writer')?.saveState().systemMessage]).toEqual(['complete', 'Other.']);
    expect(fleet.record.settings.maxRoundCount).toBe(3);
    const nobody = plain.restore(id, { overrides: { agents: { nobody: {} } } });
    await expect(nobody).rejects.toThrow('There is no agent "nobody" in the team. There are: researcher, writer.');
  });

  test('[run.7] a checkpoint of something else, or of half a fleet, is refused with words that say so', async () => {
    const { manager, all } = await finished();
    const other = await manager.save({ kind: 'group_chat' }, { sessionId: 'other' });
    const restorer = new FleetRestorer({ manager });
    await expect(restorer.restore(other)).rejects.toThrow('This checkpoint does not hold a fleet.');
    const state = (await manager.load(all[2]?.id ?? '')) as { fleet: object; agents: object };
    const cut = await manager.save({ ...state, fleet: { ...state.fleet, rounds: -1 } }, { sessionId: 'cut' });
    await expect(restorer.restore(cut)).rejects.toThrow('The state of this fleet is not complete');
    const less = await manager.save({ ...state, agents: {} }, { sessionId: 'less' });
    await expect(restorer.restore(less)).rejects.toThrow('names agents that it does not hold: researcher, writer.');
  });

  test('[run.7] a fleet that lacks an agent cannot be resumed with it', async () => {
    const { manager } = await finished();
    const [first] = createCrew().fleet.agents;
    const crew = createCrew({}, { agents: first === undefined ? [] : [first], registry: new AgentRegistry() });
    await expect(createRunner(crew, { manager }).runner.resume()).rejects.toThrow(
      'The agent "writer" is not in this team.',
    );
  });
});
