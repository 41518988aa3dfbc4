import { expect, test } from 'vitest';
import { createCrew, createRunner } from '../../../test/fleet/crew.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { CheckpointRestorer } from '../chat/checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from '../chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../chat/group-chat.ts';
import { FleetRestorer } from '../fleet/fleet-restorer.ts';
import { intervene } from '../repair/intervene.ts';

async function finished() {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const agents = ['ann', 'bob'].map((name) => new StandardAgent({ name, defaultReply: 'Yes.' }));
  const chat = new GroupChat({ agents, speakerSelection: 'round_robin', maxRounds: 2 });
  const team = new CheckpointingGroupChatManager({ chat, manager, sessionId: 'team', logs: false });
  const { checkpointId = '' } = await team.run({ message: 'Go.' });
  return { manager, id: checkpointId };
}

const OPENAI = { provider: 'openai', model: 'm' } as const;

test.each([
  [{ maxRounds: '5' }, 'The option "maxRounds" of overrides.settings must be a whole number of 1 or more; found "5".'],
  [{ maxRounds: -3 }, 'must be a whole number of 1 or more; found -3.'],
  [{ maxRound: 3 }, '"maxRound" is not an option of overrides.settings; did you mean "maxRounds"?'],
  [{ allowRepeatSpeaker: 'yes' }, 'must be true or false'],
  [{ managerName: 7 }, 'The option "managerName" of overrides.settings cannot be changed'],
  [{ managerName: 'boss' }, 'cannot be changed'],
  [{ messages: [] }, '"messages" is not an option of overrides.settings'],
  [{ allowedTransitions: { ann: ['zoe'] } }, 'The allowed transitions name "zoe"'],
  [{ allowedTransitions: { ann: 'bob' } }, 'must be a list'],
  [{ seed: 'x', speakerSelection: 'random' }, 'must be a whole number; found "x"'],
  [{ speakerSelection: 'randm' }, 'Did you mean "random"?'],
  [{ speakerSelection: 'auto' }, 'and the group has none'],
  [{ speakerSelection: { selector: 'nobody' } }, 'The selector "nobody" of the group is not registered.'],
  [{ end: { signal: 'x' } }, 'signal'],
  [{ selectorConfig: 'gpt' }, 'must be an object'],
  [{ selectorConfig: OPENAI, selectorModelId: 'm' }, 'names two models'],
])('[run.9] overrides of settings are checked before anything is written: %j', async (settings, problem) => {
  const { manager, id } = await finished();
  const count = async () => [(await manager.list({})).checkpoints.length, (await manager.branches('team')).length];
  const before = await count();
  const restorer = new CheckpointRestorer({ manager });
  const overrides = { settings: settings as never };
  await expect(restorer.continue(id, { rounds: 1, logs: false, overrides })).rejects.toThrow(problem);
  await expect(restorer.restore(id, { overrides })).rejects.toThrow(problem);
  const change = { message: 1, replacement: 'No.', rounds: 1, logs: false as const, overrides };
  await expect(intervene({ manager }, id, change)).rejects.toThrow(problem);
  expect(await count()).toEqual(before);
});

test('[run.9] overrides that can be kept are kept, and undefined ones count as left out', async () => {
  const { manager, id } = await finished();
  const restorer = new CheckpointRestorer({ manager });
  const settings = { maxRounds: undefined, allowedTransitions: null, allowRepeatSpeaker: true } as never;
  const first = await restorer.continue(id, { rounds: 1, logs: false, overrides: { settings } });
  const { chat } = await restorer.restore(first.checkpointId ?? '');
  expect(chat.record.settings).toMatchObject({ maxRounds: 2, allowedTransitions: null, allowRepeatSpeaker: true });
});

test('[run.9] an agent is given one other model, not two', async () => {
  const { manager, id } = await finished();
  const overrides = { agents: { ann: { modelId: 'm', llmConfig: OPENAI } } };
  const both = new CheckpointRestorer({ manager }).continue(id, { rounds: 1, logs: false, overrides });
  await expect(both).rejects.toThrow('An override names two models: modelId "m" and an llmConfig. Give one of them.');
});

test.each([
  [{ maxRoundCount: '5' }, 'must be a whole number of 1 or more'],
  [{ maxRounds: 3 }, '"maxRounds" is not an option of overrides.settings'],
  [{ orchestratorName: 'x' }, 'cannot be changed'],
  [{ planReview: 'yes' }, 'must be true or false'],
  [{ policy: { requireApproval: [] } }, 'unknown key "requireApproval"'],
  [{ policy: { requireApprovalFor: ['a'], trustedOperations: ['a'] } }, 'Decide for one of them'],
  [{ modelId: null }, 'it has neither'],
])('[run.9] so are those of a fleet: %j', async (settings, problem) => {
  const crew = createCrew();
  const { runner, manager } = createRunner(crew);
  const { checkpointId = '' } = await runner.run({ task: 'Find out.' });
  const restorer = new FleetRestorer({ manager, registry: crew.registry });
  const overrides = { settings: settings as never };
  await expect(restorer.continue(checkpointId, { overrides })).rejects.toThrow(problem);
  expect(await manager.branches('crew')).toHaveLength(1);
});

test('[run.9] a fleet ends by the limits that it is given on purpose', async () => {
  const crew = createCrew();
  const { runner, manager } = createRunner(crew);
  const { checkpointId = '' } = await runner.run({ task: 'Find out.' });
  const restorer = new FleetRestorer({ manager, registry: crew.registry });
  const { fleet: before } = await restorer.restore(checkpointId);
  const { roundLimit, settings } = before.record;
  const overrides = { settings: { maxRoundCount: settings.maxRoundCount + 2 } };
  const { fleet } = await restorer.restore(checkpointId, { overrides });
  expect(fleet.record.roundLimit).toBe(roundLimit + 2);
});
