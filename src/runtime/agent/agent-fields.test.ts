import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { Orchestrator } from '../orchestrator/orchestrator.ts';
import { AgentRegistry } from './agent-registry.ts';
import type { AgentState } from './agent-state.ts';
import { StandardAgent } from './standard-agent.ts';

class Clerk extends StandardAgent {
  stage = 'NEW';
  collectedFields: Record<string, unknown> = {};
  count = 0;
  manager: CheckpointManager | undefined;
}

function clerk(): Clerk {
  return new Clerk({ name: 'clerk', defaultReply: 'Yes.' });
}

function openManager(): CheckpointManager {
  return new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
}

const WORKED = { stage: 'ASKED', count: 7, collectedFields: { city: { name: 'Graz' } as unknown } };

describe('the public fields of a subclass', () => {
  test('[agent.5] come back into a new agent and into a live one', async () => {
    const manager = openManager();
    const saved = Object.assign(clerk(), structuredClone(WORKED), { manager });
    const id = await manager.save(saved);
    const made = await manager.restore<Clerk>(id, { factory: clerk });
    expect(made).toMatchObject(WORKED);
    expect(manager.reportOf(made)).toMatchObject({ status: 'complete' });
    saved.collectedFields.city = 'Linz';
    saved.count = 8;
    await manager.restore(id, { into: saved });
    expect(saved).toMatchObject({ ...WORKED, manager });
    expect((await manager.get(id))?.collectedFields).toEqual(WORKED.collectedFields);
  });

  test('[agent.5] come back in conversations, from where they were between two moves', async () => {
    const checkpoints = openManager();
    const ann = Object.assign(clerk(), structuredClone(WORKED));
    const chat = new GroupChat({
      agents: [ann],
      speakerSelection: 'round_robin',
      allowRepeatSpeaker: true,
      maxRounds: 1,
    });
    const run = await new CheckpointingGroupChatManager({ chat, checkpoints, sessionId: 's', logs: false }).run({
      message: 'Go.',
    });
    ann.collectedFields.city = 'Linz';
    const registry = new AgentRegistry({ agents: { Clerk: clerk } });
    const restorer = new CheckpointRestorer({ checkpoints, registry });
    const restored = await restorer.restore(run.checkpointId ?? '');
    expect(restored.report.status).toBe('complete');
    expect(restored.chat.agent('clerk')).toMatchObject(WORKED);
    const state = ann.saveState();
    ann.collectedFields.city = 'Wien';
    expect(state.fields?.collectedFields).toEqual({ city: 'Linz' });
    ann.loadState(state);
    ann.collectedFields.city = 'Wien';
    expect(state.fields?.collectedFields).toEqual({ city: 'Linz' });
  });

  test('[agent.5] what an agent has and the checkpoint lacks is named; older states say nothing of fields', async () => {
    class Later extends Clerk {
      added = 1;
    }
    const later = () => new Later({ name: 'clerk' });
    const state = clerk().saveState();
    expect(later().loadState(state)).toMatchObject([{ path: '$.agents.clerk.fields.added' }]);
    const { fields: _, ...older } = state;
    expect(later().loadState(older)).toEqual([]);
  });

  test('[agent.5] what cannot be saved is refused with its path, unless the class says itself what is saved', async () => {
    class Caller extends StandardAgent {
      count = 1;
      call = () => 'called';
    }
    class Saying extends Caller {
      override saveState(): AgentState {
        const { call: _, ...fields } = this;
        return { ...super.saveState(), fields };
      }
    }
    const manager = openManager();
    await expect(manager.save(new Caller({ name: 'ann' }))).rejects.toThrow('$.fields.call');
    const saying = Object.assign(new Saying({ name: 'ann' }), { count: 5 });
    const factory = () => new Saying({ name: 'ann' });
    const restored = await manager.restore<Saying>(await manager.save(saying), { factory });
    expect([restored.count, restored.call()]).toEqual([5, 'called']);
  });

  test('[agent.5] a change of one is noticed by an orchestrator', async () => {
    const checkpointManager = openManager();
    const agent = clerk();
    const orchestrator = new Orchestrator({ agents: [agent], checkpointManager, autoCheckpoint: true });
    await orchestrator.flush();
    agent.count++;
    await orchestrator.close();
    const again = new Orchestrator({ agents: [clerk()], checkpointManager });
    const reports = await again.restore();
    expect(again.agent('clerk')).toMatchObject({ count: 1 });
    expect(reports).toMatchObject({ clerk: { status: 'complete' } });
  });
});

test('[agent.5] what the code gives an agent and the checkpoint has otherwise is named', async () => {
  const manager = openManager();
  const make = (systemMessage?: string) => new StandardAgent({ name: 'ann', ...(systemMessage && { systemMessage }) });
  const id = await manager.save(make('OLD'));
  const changed = await manager.restore<StandardAgent>(id, { factory: () => make('NEW') });
  expect(changed.systemMessage).toBe('OLD');
  expect(manager.reportOf(changed)).toMatchObject({
    status: 'partial',
    problems: [{ path: '$.agents.ann.prompt', problem: expect.stringContaining('changed in the code') }],
  });
  for (const same of ['OLD', undefined]) {
    const agent = await manager.restore<StandardAgent>(id, { factory: () => make(same) });
    expect(manager.reportOf(agent)?.status).toBe('complete');
  }
  const orchestrator = new Orchestrator({ agents: [make('OLD')], checkpointManager: manager, autoCheckpoint: true });
  await orchestrator.close();
  const reports = await new Orchestrator({ agents: [make('NEW')], checkpointManager: manager }).restore();
  expect(reports.ann?.status).toBe('partial');
});
