import { describe, expect, test } from 'vitest';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointManager } from '../checkpoint-manager.ts';
import { Workers } from '../workers/workers.ts';

const createManager = (agents: Record<string, () => object> = {}) =>
  new CheckpointManager({ storage: new InMemoryCheckpointStorage(), agents });

/** Saves a state as an earlier release of the class `Agent` would have. */
async function saveOld(manager: CheckpointManager, fields: object): Promise<string> {
  class Agent {
    id = 'a';
    constructor() {
      Object.assign(this, fields);
    }
  }
  return manager.save(new Agent());
}

describe('a class that changed', () => {
  class Agent {
    id = 'a';
    count: unknown = 'none';
    at: Date | null = null;
    gained = 1;
    settings: Record<string, unknown> = { retries: 3 };
  }
  const changes = ['changed $.count', 'added $.gained', 'changed $.settings.retries', 'missing $.lost'];
  const named = (problems: readonly { path: string; kind?: string }[] = []) =>
    problems.map(({ path, kind }) => `${kind} ${path}`);
  const old = { count: 5, at: new Date(0), lost: 'x', settings: { retries: 'three', more: 1 } };

  test('[restore.2] gained, lost and changed fields are named; the checkpoint, or with accept the code, says what they hold', async () => {
    const manager = createManager({ Agent: () => new Agent() });
    const id = await saveOld(manager, old);
    const warned = await manager.restore<Agent>(id);
    expect(warned).toEqual({ id: 'a', gained: 1, ...old });
    expect(named(manager.reportOf(warned)?.problems)).toEqual(changes);
    const accepted = await manager.restore<Agent>(id, { onDifference: 'accept' });
    expect(accepted).toEqual({ id: 'a', gained: 1, count: 'none', at: new Date(0), settings: { retries: 3, more: 1 } });
    expect(named(manager.reportOf(accepted)?.problems)).toEqual(changes);
  });

  test('[restore.2] with fail a live agent is left as it was, alone and in a group; one that fits is restored', async () => {
    const manager = createManager();
    const id = await saveOld(manager, old);
    const group = await new Workers(manager).saveGroup([{ name: 'm', agent: await fitting(manager, id) }], {
      groupId: 'g',
    });
    const agent = new Agent();
    const refused = {
      code: 'INVALID_INPUT',
      message: expect.stringContaining('"count" is a number in the checkpoint'),
    };
    await expect(manager.restore(id, { into: agent, onDifference: 'fail' })).rejects.toMatchObject(refused);
    await expect(
      new Workers(manager).restoreGroup(group.id, { into: { m: agent }, onDifference: 'fail' }),
    ).rejects.toThrow('"count" is a number in the checkpoint');
    expect(agent).toEqual(new Agent());
    expect(await fitting(manager, id)).toMatchObject(old);
  });

  test('[restore.4] an agent that loads itself is asked what it holds before', async () => {
    class Keeping {
      id = 'k';
      count: unknown = '';
      saveState() {
        return { id: this.id, count: this.count };
      }
      loadState(state: unknown): undefined {
        Object.assign(this, state);
      }
    }
    const manager = createManager({ Keeping: () => new Keeping() });
    const id = await manager.save(Object.assign(new Keeping(), { count: 5 }));
    expect(named(manager.reportOf(await manager.restore<Keeping>(id))?.problems)).toEqual(['changed $.count']);
  });

  async function fitting(manager: CheckpointManager, id: string): Promise<object> {
    class Agent {
      id = 'a';
      count = 0;
      at: Date | null = null;
      lost = '';
      settings = {};
    }
    return manager.restore(id, { factory: () => new Agent(), onDifference: 'fail' });
  }
});
