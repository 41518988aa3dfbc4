import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { countReplies, createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { answerOf, createTeam } from '../../../test/support/team.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { defineTool } from '../agent/tool.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { FleetRestorer } from '../fleet/fleet-restorer.ts';
import type { ModelRequest } from '../model/chat-model.ts';

const inMemory = () => new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
const TASK = { task: 'Find out what is known.' };
const GATED = { humanInTheLoop: { require_approval_for: ['look_up'] } };
const once = { assess: (request: ModelRequest) => ({ satisfied: countReplies(request) >= 1 }) };

/** A storage with a session as the last version without works in the state left it, in the middle of a turn. */
async function openGolden(name: string): Promise<CheckpointManager> {
  const manager = inMemory();
  await manager.importSession(createReadStream(join('test/golden/runs', name)));
  return manager;
}

/** The model is down once the solver has used its tool. */
const failAfterTool = (request: ModelRequest) =>
  request.messages.at(-1)?.role === 'tool' ? { status: 400 } : answerOf(request);

describe('a move that was saved before it was over', () => {
  test('[run.6] a chat goes on with its finished calls, on its branch and on a fork', async () => {
    const manager = inMemory();
    const broken = createTeam({ maxRounds: 1 }, failAfterTool);
    const held = { manager, sessionId: 's', logs: false } as const;
    const failed = await new CheckpointingGroupChatManager({ ...held, chat: broken.chat }).run({ message: 'Square.' });
    expect([failed.status, broken.calls]).toEqual(['failed', [2]]);
    const forked = createTeam({ maxRounds: 1 });
    const restorer = new CheckpointRestorer({ manager, registry: forked.registry });
    const fork = await restorer.continue(failed.checkpointId ?? '', { rounds: 1, logs: false });
    expect([fork.messages.at(-1)?.content, forked.calls, forked.model.requests.length]).toEqual([
      'The square is 4.',
      [],
      1,
    ]);
    const again = createTeam({ maxRounds: 1 });
    const resumed = await new CheckpointingGroupChatManager({ ...held, chat: again.chat }).resume();
    expect([resumed.messages.at(-1)?.content, again.calls, again.model.requests.length]).toEqual([
      'The square is 4.',
      [],
      1,
    ]);
    expect(await manager.load(resumed.checkpointId ?? '')).not.toHaveProperty('works');
  });

  test('[run.6] a fleet does, too', async () => {
    const manager = inMemory();
    const speak = (request: ModelRequest) =>
      request.messages.at(-1)?.role === 'tool'
        ? { status: 400 }
        : { toolCalls: [{ id: 'call', name: 'look_up', input: { what: 'it' } }] };
    const broken = createCrew({ ...once, speak });
    const failed = await createRunner(broken, { manager }).runner.run(TASK);
    expect([failed.status, broken.calls]).toEqual(['failed', ['it']]);
    const whole = { ...once, speak: () => 'Found.' };
    const forked = createCrew(whole);
    const fork = await new FleetRestorer({ manager, registry: forked.registry }).continue(failed.checkpointId ?? '');
    expect([fork.status, fork.messages.at(-1)?.content, forked.calls]).toEqual(['ended', 'Found.', []]);
    const again = createCrew(whole);
    const resumed = await createRunner(again, { manager }).runner.resume();
    expect([resumed.status, resumed.messages.at(-1)?.content, again.calls]).toEqual(['ended', 'Found.', []]);
  });

  test('[run.6] what an older version saved of a chat goes on without a call more', async () => {
    const manager = await openGolden('chat-mid-turn.jsonl');
    const team = createTeam();
    const held = new CheckpointingGroupChatManager({
      chat: team.chat,
      manager,
      sessionId: 'chat',
      logs: false,
    });
    const result = await held.resume({ rounds: 1 });
    expect([result.messages.at(-1)?.content, team.calls, team.model.requests.length]).toEqual([
      'The square is 4.',
      [],
      1,
    ]);
  });

  test('[run.6] what an older version saved of a fleet does, on its branch and on a fork', async () => {
    const manager = await openGolden('fleet-mid-turn.jsonl');
    const head = await manager.latest({ sessionId: 'crew' });
    const crew = createCrew(once, GATED);
    const { runner } = createRunner(crew, { manager });
    await runner.answer({ requestId: 'round-1-1', answer: 'approve', by: 'Ann' });
    expect(await runner.resume()).toMatchObject({ status: 'ended', end: { reason: 'satisfied' } });
    const toResearcher = ({ model }: typeof crew) =>
      model.requests.filter(({ system }) => system === 'You look things up.').length;
    expect([crew.calls, toResearcher(crew)]).toEqual([['thing 2'], 1]);
    const forked = createCrew(once, GATED);
    const fork = await new FleetRestorer({ manager, registry: forked.registry }).continue(head?.id ?? '', {
      ask: async () => ({ answer: 'approve' }),
    });
    expect([fork.status, forked.calls, toResearcher(forked)]).toEqual(['ended', ['thing 2'], 1]);
  });
});

describe('secrets that were left out', () => {
  const SECRET = 'sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH';

  /** An agent that sends what it was told with a tool, of a model that fails when it is `down`. */
  function createSender(isDown: boolean) {
    const sent: string[] = [];
    const send = defineTool({
      name: 'send',
      description: 'Sends.',
      input: z.object({ header: z.string() }),
      run: ({ header }) => {
        sent.push(header);
        if (isDown && sent.length === 1) throw new Error('down');
        return 'ok';
      },
    });
    const model = scriptedModel(
      ({ messages }: ModelRequest) => {
        const last = messages.at(-1);
        if (last?.role !== 'tool') return { toolCalls: [{ id: 'a', name: 'send', input: { header: 'x' } }] };
        const told = String(messages[0]?.content).match(/key (.+)\./)?.[1] ?? '';
        if (sent.length <= 1 && isDown) return { status: 400 };
        const isSent = messages.filter(({ role }) => role === 'tool').length > 1;
        if (isSent) return JSON.stringify(last.content);
        return { toolCalls: [{ id: 'b', name: 'send', input: { header: `Bearer ${told}` } }] };
      },
      { id: 'sender' },
    );
    const agent = new StandardAgent({ name: 'ann', model, tools: [send] });
    return { chat: new GroupChat({ agents: [agent], maxRounds: 1 }), sent };
  }

  test('[agent.1] a tool of a resumed chat is not called with the mark of one inside a longer string', async () => {
    const manager = inMemory();
    const held = { manager, sessionId: 's', logs: false } as const;
    const first = createSender(true);
    const message = `Send it with the key ${SECRET}.`;
    expect((await new CheckpointingGroupChatManager({ ...held, chat: first.chat }).run({ message })).status).toBe(
      'failed',
    );
    const later = createSender(false);
    const result = await new CheckpointingGroupChatManager({ ...held, chat: later.chat }).resume();
    expect(later.sent).toEqual([]);
    expect(result.messages.at(-1)?.content).toContain('The secret at $.header of the input was left out');
  });

  test('[agent.1] in a run that was not resumed, the tool gets what the model says', async () => {
    const whole = createSender(false);
    const held = { manager: inMemory(), sessionId: 's', logs: false } as const;
    await new CheckpointingGroupChatManager({ ...held, chat: whole.chat }).run({ message: 'With the key [secret x].' });
    expect(whole.sent).toEqual(['x', 'Bearer [secret x]']);
  });
});
