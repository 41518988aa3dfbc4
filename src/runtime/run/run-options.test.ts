import { describe, expect, test } from 'vitest';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { Fleet } from '../fleet/fleet.ts';
import { FleetRestorer } from '../fleet/fleet-restorer.ts';

const agents = () => [new StandardAgent({ name: 'a', model: scriptedModel([]) })];
const checkpoints = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });

describe('options of teams', () => {
  test.each<[object, string]>([
    [{ maxRound: 3 }, 'did you mean "maxRounds"?'],
    [{ maxRounds: '3' }, 'found "3"'],
    [{ end: { signal: ['x'] } }, 'The option "end" of new GroupChat() has the unknown key "signal"'],
    [{ end: { maxTokens: Number.NaN } }, '"end.maxTokens"'],
    [{ agents: undefined }, '"agents" of new GroupChat() must be a list'],
  ])('[I4] a group with %j is not made', (options, message) => {
    expect(() => new GroupChat({ agents: agents(), ...options } as never)).toThrow(message);
  });

  test.each<[object, string]>([
    [{ maxRoundCounts: 3 }, 'did you mean "maxRoundCount"?'],
    [{ maxRoundCount: '3' }, 'found "3"'],
    [{ maxTokens: -1 }, 'found -1'],
    [{ callbacks: { stream: true } }, 'did you mean "streaming"?'],
  ])('[I4] a fleet with %j is not made', (options, message) => {
    expect(() => new Fleet({ agents: agents(), model: scriptedModel([]), ...options } as never)).toThrow(message);
  });

  test('[I4] a continuation refuses what it does not know before it reads anything', async () => {
    const chats = new CheckpointRestorer({ checkpoints });
    await expect(chats.continue('chk_1', { rounds: 1, promt: 'x' } as never)).rejects.toThrow('did you mean "prompt"?');
    await expect(chats.continue('chk_1', {} as never)).rejects.toThrow('"rounds" of continue() must be a whole number');
    const fleets = new FleetRestorer({ checkpoints });
    await expect(fleets.continue('chk_1', { promt: 'x' } as never)).rejects.toThrow('did you mean "prompt"?');
  });
});
