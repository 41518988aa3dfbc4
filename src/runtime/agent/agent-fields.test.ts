import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { AgentRegistry } from './agent-registry.ts';
import type { AgentState } from './agent-state.ts';
import { Orchestrator } from './auto-save.ts';
import { StandardAgent } from './standard-agent.ts';
import { defineTool, type Tool } from './tool.ts';

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
    const manager = openManager();
    const ann = Object.assign(clerk(), structuredClone(WORKED));
    const chat = new GroupChat({
      agents: [ann],
      speakerSelection: 'round_robin',
      allowRepeatSpeaker: true,
      maxRounds: 1,
    });
    const run = await new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false }).run({
      message: 'Go.',
    });
    ann.collectedFields.city = 'Linz';
    const registry = new AgentRegistry({ agents: { Clerk: clerk } });
    const restorer = new CheckpointRestorer({ manager, registry });
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

test('[restore.2] prompt, limits and tools of an agent alone are one list, which onDifference decides about', async () => {
  const checkpointManager = openManager();
  const tool = (name: string, description: string) =>
    defineTool({ name, description, input: z.object({}), run: () => 'ok' });
  const agent = (systemMessage: string, maxToolRounds: number, ...tools: Tool[]) =>
    new StandardAgent({ name: 'ann', systemMessage, maxToolRounds, tools });
  await checkpointManager.save(agent('OLD', 3, tool('same', 's'), tool('other', 'old'), tool('gone', 'g')), {
    sessionId: 'ann',
  });
  const restore = async (onDifference: 'fail' | 'warn' | 'accept') => {
    const ann = agent('NEW', 5, tool('other', 'new'), tool('more', 'm'));
    const registry = new AgentRegistry({ tools: [tool('same', 's')] });
    const reports = await new Orchestrator({ agents: [ann], checkpointManager, registry }).restore({ onDifference });
    const named = reports.ann?.problems.map(({ kind, path }) => `${kind} ${path.slice('$.agents.ann.'.length)}`);
    const { systemMessage, maxToolRounds, tools } = ann.saveState();
    return [named, systemMessage, maxToolRounds, Object.keys(tools)];
  };
  const named = [
    'changed prompt',
    'changed maxToolRounds',
    'added tools.more',
    'changed tools.other',
    'missing tools.gone',
  ];
  expect(await restore('warn')).toEqual([named, 'OLD', 3, ['same', 'other', 'gone']]);
  expect(await restore('accept')).toEqual([named, 'NEW', 5, ['same', 'other', 'more']]);
  await expect(restore('fail')).rejects.toThrow('The tool "gone" is not registered. Restore with onDifference');
});

test('[agent.5] options of a subclass are its own, also if they are named as parts of the state', () => {
  class Clerk extends StandardAgent {
    constructor(options: { readonly name: string; readonly status: string; readonly totals: number }) {
      super(options);
    }
  }
  const { status, totals } = new Clerk({ name: 'ann', status: 'urgent', totals: 3 }).saveState();
  expect([status, totals.modelCalls]).toEqual(['initializing', 0]);
  expect(new StandardAgent({ name: 'bob', runtime: { store: undefined } as never }).saveState().runtime.store).toBe(
    false,
  );
});

describe('a subclass that says itself what is saved', () => {
  class Counter extends StandardAgent {
    #n = 0;
    count(): this {
      this.#n++;
      return this;
    }
    get n(): number {
      return this.#n;
    }
    override saveState(): AgentState {
      return { ...super.saveState(), custom: { n: this.#n } };
    }
    protected take(state: unknown): void {
      this.#n = (state as { custom: { n: number } }).custom.n;
    }
  }
  class Silent extends Counter {
    override loadState(state: unknown): never {
      super.loadState(state);
      this.take(state);
      return undefined as never;
    }
  }
  class Leaving extends StandardAgent {
    client: unknown = { send: () => 'sent' };
    stage = 'NEW';
    override saveState(): AgentState {
      const { client: _, ...fields } = this;
      return { ...super.saveState(), fields };
    }
  }

  test.each(['fail', 'warn', 'accept'] as const)(
    '[run.7] %s decides about fields that the code gained, lost or has otherwise, everywhere',
    async (onDifference) => {
      const before = class Clerk extends StandardAgent {
        lost = 'old';
        stage = 'NEW';
        count: number | string = 0;
        plan: string[] | null = null;
        work(): this {
          return Object.assign(this, { count: 5, plan: ['go'], memo: 'not in the class' });
        }
      };
      const after = class Clerk extends StandardAgent {
        stage = 'NEW';
        count: number | string = 'none';
        plan: string[] | null = null;
        gained = 1;
      };
      const make = () => new after({ name: 'ann', defaultReply: 'Yes.' });
      const was = new before({ name: 'ann', defaultReply: 'Yes.' });
      const ways = await putBack(was, make, { onDifference, begin: () => was.work() });
      const same = () => new before({ name: 'ann', defaultReply: 'Yes.' });
      const again = await putBack(same(), same, { onDifference: 'fail', begin: (agent) => agent.work() });
      expect([(await again.restore()).report.status, (await again.resume()).differences]).toEqual(['complete', []]);
      const differences = [
        { path: '$.agents.ann.fields.lost', kind: 'missing', text: 'The field "lost" of "ann" is not in its code.' },
        {
          path: '$.agents.ann.fields.count',
          kind: 'changed',
          text: 'The field "count" of "ann" was a number in its code, and is a string.',
        },
        { path: '$.agents.ann.fields.gained', kind: 'added', text: 'The field "gained" of "ann" is new.' },
      ];
      if (onDifference === 'fail') {
        const live = Object.assign(make(), { stage: 'LIVE' });
        await expect(ways.into(live)).rejects.toThrow('"lost"');
        expect([live.saveState().fields, Object.hasOwn(live, 'lost')]).toEqual([
          { stage: 'LIVE', count: 'none', plan: null, gained: 1 },
          false,
        ]);
        for (const way of [ways.restore, ways.proceed, ways.resume, ways.orchestrate, ways.alone]) {
          const error = await way().then(
            () => undefined,
            (thrown: unknown) => thrown as { message: string; details: unknown },
          );
          for (const { path } of differences)
            expect(error).toMatchObject({
              code: 'INVALID_INPUT',
              message: expect.stringContaining(path.split('.').at(-1) ?? ''),
            });
        }
        return;
      }
      const isKept = onDifference === 'warn';
      const held = make();
      const resumed = await ways.resume(held);
      const { chat, report } = await ways.restore();
      for (const agent of [chat.agent('ann'), held, await ways.orchestrate()])
        expect(agent).toMatchObject({ stage: 'NEW', plan: ['go'], gained: 1, count: isKept ? 5 : 'none' });
      for (const agent of [chat.agent('ann'), held]) expect(Object.hasOwn(agent ?? {}, 'lost')).toBe(isKept);
      expect([chat.agent('ann'), held]).toMatchObject([{ memo: 'not in the class' }, { memo: 'not in the class' }]);
      for (const found of [report.differences, (await ways.proceed()).differences, resumed.differences])
        expect(found).toEqual(differences);
      const problems = (await ways.alone())?.problems ?? [];
      expect(problems.map(({ path, kind }) => `${kind} ${path}`)).toEqual(
        expect.arrayContaining(differences.map(({ path, kind }) => `${kind} ${path}`)),
      );
    },
  );

  /** Saves an agent in a team and alone; returns what each way of putting it back says. */
  async function putBack<Agent extends StandardAgent>(
    agent: Agent,
    make: () => StandardAgent,
    { begin, ...deciding }: { begin?: (agent: Agent) => unknown; onDifference?: 'fail' | 'warn' | 'accept' } = {},
  ) {
    const manager = openManager();
    const hold = (one: StandardAgent) => {
      const options = { speakerSelection: 'round_robin', allowRepeatSpeaker: true, maxRounds: 1 } as const;
      const chat = new GroupChat({ agents: [one], ...options });
      return new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false });
    };
    const held = hold(agent);
    begin?.(agent);
    const { checkpointId = '' } = await held.run({ message: 'Go.' });
    const registry = new AgentRegistry({ agents: { [agent.constructor.name]: make } });
    const restorer = new CheckpointRestorer({ manager, registry });
    const id = await manager.save(agent, { sessionId: 'ann' });
    return {
      manager,
      restore: () => restorer.restore(checkpointId, deciding),
      proceed: () => restorer.continue(checkpointId, { rounds: 1, logs: false, ...deciding }),
      resume: (one = make()) => hold(one).resume(deciding),
      alone: async () => manager.reportOf(await manager.restore<object>(id, { factory: make, ...deciding })),
      into: (one: StandardAgent) => manager.restore(id, { into: one, ...deciding }),
      orchestrate: async () => {
        const one = make();
        await new Orchestrator({ agents: [one], checkpointManager: manager }).restore(deciding);
        return one;
      },
    };
  }

  test('[restore.4] is asked again if it does not say how it is taken back, and what is lost is named', async () => {
    const make = () => new Counter({ name: 'ann', defaultReply: 'Yes.' });
    const { restore, proceed, resume, alone } = await putBack(make().count(), make);
    const problem = '"custom" is not as it was saved. Give the agent a loadState that takes it over.';
    for (const way of [restore, proceed, resume]) await expect(way()).rejects.toThrow(problem);
    expect(await alone()).toMatchObject({ status: 'partial', problems: [{ path: '$.agents.ann.custom', problem }] });
  });

  test('[restore.4] may return nothing from its loadState', async () => {
    const make = () => new Silent({ name: 'ann', defaultReply: 'Yes.' });
    const { restore, proceed, resume, alone } = await putBack(make().count(), make);
    const { chat, report } = await restore();
    expect([report.status, (chat.agent('ann') as Silent).n]).toEqual(['complete', 1]);
    expect((await proceed()).report.status).toBe('complete');
    expect((await resume()).differences).toEqual([]);
    expect(await alone()).toMatchObject({ status: 'complete' });
  });

  test('[agent.5] keeps its public fields beside what it says, as its subclasses do', async () => {
    class Memo extends Counter {
      notes = ['first'];
      override loadState(state: unknown) {
        this.take(state);
        return super.loadState(state);
      }
    }
    class Longer extends Memo {
      tags: string[] = [];
    }
    const make = () => new Longer({ name: 'ann', defaultReply: 'Yes.' });
    const begin = (agent: Longer) => agent.count() && agent.notes.push('second') && agent.tags.push('new');
    const worked = { n: 1, notes: ['first', 'second'], tags: ['new'] };
    const ways = await putBack(make(), make, { begin });
    const { chat, report } = await ways.restore();
    const resumed = make();
    expect([report.status, (await ways.resume(resumed)).differences]).toEqual(['complete', []]);
    expect(await ways.alone()).toMatchObject({ status: 'complete' });
    for (const agent of [chat.agent('ann'), resumed, await ways.orchestrate()]) expect(agent).toMatchObject(worked);
  });

  test('[restore.2] may leave a field out: it keeps what the code gave it, and nothing is missing', async () => {
    const make = () => new Leaving({ name: 'ann', defaultReply: 'Yes.' });
    const { restore, proceed, resume, alone } = await putBack(Object.assign(make(), { stage: 'ASKED' }), make);
    const { chat, report } = await restore();
    expect(chat.agent('ann')).toMatchObject({ stage: 'ASKED', client: { send: expect.any(Function) } });
    expect(report.status).toBe('complete');
    expect((await proceed()).report.differences).toEqual([]);
    expect((await resume()).differences).toEqual([]);
    expect(await alone()).toMatchObject({ status: 'complete' });
  });

  test('[restore.4] may begin to leave a field out: what the checkpoint has of it is named for what it is', async () => {
    const keeping = class Clerk extends StandardAgent {
      note = 'mail';
    };
    const leaving = class Clerk extends StandardAgent {
      note = 'none';
      override saveState(): AgentState {
        const { note: _, ...fields } = this;
        return { ...super.saveState(), fields };
      }
    };
    const make = () => new leaving({ name: 'ann', defaultReply: 'Yes.' });
    const { resume, alone } = await putBack(new keeping({ name: 'ann', defaultReply: 'Yes.' }), make);
    await expect(resume()).rejects.toThrow('The field "note" of "ann" is not in its code. Go on with');
    expect((await alone())?.problems).toMatchObject([{ path: '$.agents.ann.fields.note' }]);
  });

  test.each([true, {}, 'x', [1], Promise.resolve()])('[restore.4] must not return %j from loadState', async (said) => {
    class Odd extends StandardAgent {
      override loadState(state: unknown): never {
        super.loadState(state);
        return said as never;
      }
    }
    const make = () => new Odd({ name: 'ann', defaultReply: 'Yes.' });
    const { restore, proceed, resume, alone } = await putBack(make(), make);
    const problem = 'loadState of a Odd must return nothing, or a list of what could not be put back';
    for (const way of [restore, proceed, resume]) await expect(way()).rejects.toThrow(problem);
    if (!(said instanceof Promise)) await expect(alone()).rejects.toThrow(problem);
  });
});

describe('agents of a team restored on their own', () => {
  class Memo extends StandardAgent {}

  test('[restore.3] are known by their name', async () => {
    const manager = openManager();
    const id = await manager.save(new StandardAgent({ name: 'memo', defaultReply: 'Yes.' }));
    const zoe = new StandardAgent({ name: 'zoe' });
    await expect(manager.restore(id, { into: zoe })).rejects.toThrow('is of agent "memo" of type StandardAgent');
    await manager.restore(id, { into: zoe, allowOther: true });
    expect([zoe.name, manager.reportOf(zoe)?.status]).toEqual(['zoe', 'partial']);
    expect(zoe.saveState().defaultReply).toBe('Yes.');
    const memo = new StandardAgent({ name: 'memo' });
    await manager.restore(id, { into: memo });
    expect(manager.reportOf(memo)?.status).toBe('complete');
  });

  test('[run.7] a maker that makes another class is a difference', async () => {
    const manager = openManager();
    const agents = [new Memo({ name: 'ann', defaultReply: 'Yes.' })];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', allowRepeatSpeaker: true, maxRounds: 1 });
    const team = new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false });
    const { checkpointId = '' } = await team.run({ message: 'Go.' });
    const make = (Made: typeof StandardAgent) => {
      const registry = new AgentRegistry({ agents: { Memo: ({ name }) => new Made({ name }) } });
      return new CheckpointRestorer({ manager, registry }).restore(checkpointId);
    };
    await expect(make(StandardAgent)).rejects.toThrow('"ann" was of the class "Memo", and what is registered');
    await expect(make(class Clerk extends StandardAgent {})).rejects.toThrow('makes a Clerk');
    expect((await make(Memo)).report.status).toBe('complete');
  });

  test('[run.7] what a maker gives an agent, and the code of then did not, is a difference', async () => {
    const manager = openManager();
    const agents = [new Memo({ name: 'ann', defaultReply: 'Yes.', systemMessage: 'OLD' })];
    const chat = new GroupChat({ agents, speakerSelection: 'round_robin', allowRepeatSpeaker: true, maxRounds: 1 });
    const team = new CheckpointingGroupChatManager({ chat, manager, sessionId: 's', logs: false });
    const { checkpointId = '' } = await team.run({ message: 'Go.' });
    const edit = [{ op: 'replace', path: '/agents/ann/systemMessage', value: 'EDITED' }] as const;
    const { headId } = await manager.fork(checkpointId, { edit });
    const restore = (id: string, maker: (state: AgentState) => StandardAgent, options = {}) => {
      const registry = new AgentRegistry({ agents: { Memo: maker } });
      return new CheckpointRestorer({ manager, registry }).restore(id, options);
    };
    const changed = () => new Memo({ name: 'ann', systemMessage: 'NEW', maxToolRounds: 2 });
    await expect(restore(checkpointId, changed)).rejects.toThrow(
      'The prompt of "ann" changed. The setting "maxToolRounds" of "ann" changed from 8 to 2.',
    );
    const { chat: accepted } = await restore(checkpointId, changed, { onDifference: 'accept' });
    expect(accepted.agent('ann')?.saveState()).toMatchObject({ systemMessage: 'NEW', maxToolRounds: 2 });
    const { chat: warned } = await restore(checkpointId, changed, { onDifference: 'warn' });
    expect(warned.agent('ann')?.systemMessage).toBe('OLD');
    for (const maker of [
      () => new Memo({ name: 'ann', systemMessage: 'OLD' }),
      ({ name, systemMessage }: AgentState) => new Memo({ name, systemMessage }),
    ])
      for (const id of [checkpointId, headId]) expect((await restore(id, maker)).report.status).toBe('complete');
  });
});
