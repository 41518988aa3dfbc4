import { expect, test } from 'vitest';
import { z } from 'zod';
import { digestText } from '../../core/tree/chunk.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { scriptedModel } from '../../testing/model/scripted-model.ts';
import type { HumanRequest } from '../agent/reply.ts';
import { StandardAgent } from '../agent/standard-agent.ts';
import { defineTool } from '../agent/tool.ts';
import type { ModelRequest } from '../model/chat-model.ts';
import type { ChatState } from './chat-state.ts';
import { CheckpointRestorer } from './checkpoint-restorer.ts';
import { CheckpointingGroupChatManager } from './checkpointing-group-chat-manager.ts';
import { GroupChat } from './group-chat.ts';
import { nextRandom } from './speaker-selection.ts';

const CONVERSATIONS = 40;
const MAX_LIVES = 200;

type Chance = { below(count: number): number };

function chance(seed: number): Chance {
  let state = seed;
  return {
    below: (count) => {
      const drawn = nextRandom(state);
      state = drawn.state;
      return Math.floor(drawn.value * count);
    },
  };
}

function pick<Item>(items: readonly [Item, ...Item[]], number: number): Item {
  return items[number % items.length] ?? items[0];
}

/** A number that follows from a value alone: what models and people answer is the same in every life. */
function numberOf(value: unknown): number {
  return Number.parseInt(
    digestText(JSON.stringify(value))
      .replaceAll(/[^\da-f]/g, '')
      .slice(0, 8),
    16,
  );
}

function answerModel({ system, messages }: ModelRequest) {
  const number = numberOf(messages);
  if (system?.startsWith('You lead')) return pick(['a0', 'I think a1', 'nobody'], number);
  if (messages.at(-1)?.role === 'tool' || number % 3 !== 0) return pick(['', 'Yes.', 'No.', 'TERMINATE'], number % 50);
  const input = { n: number % 5 === 0 ? 'wrong' : number % 10 };
  const name = number % 11 === 0 ? 'unknown' : 'double';
  return { toolCalls: [1, 2].map((call) => ({ id: number % 2 === 0 ? 'same' : `call-${call}`, name, input })) };
}

function answerPerson(request: HumanRequest): string {
  const number = numberOf(request);
  if (request.kind === 'speaker') return number % 6 === 0 ? '' : (request.choices?.[number % 2] ?? '');
  return pick(['', 'I say so.', '', number % 3 === 0 ? 'exit' : ''], number);
}

type Trouble = {
  readonly onCall: () => void;
  /** Whether the model is down for once. */
  readonly isDown: () => boolean;
  readonly finished: Map<string, number>;
};

/** A team that follows from the seed: who selects, who is behind the agents, and what they may do. */
function createTeam(seed: number, { onCall, isDown, finished }: Trouble): GroupChat {
  const random = chance(seed);
  const double = defineTool({
    name: 'double',
    description: 'Doubles.',
    input: z.object({ n: z.number() }),
    run: async ({ n }, { idempotencyKey, signal }) => {
      onCall();
      if (signal.aborted) await new Promise(() => undefined);
      finished.set(idempotencyKey, (finished.get(idempotencyKey) ?? 0) + 1);
      return n * 2;
    },
  });
  const model = scriptedModel(
    (request) => {
      onCall();
      return isDown() ? { status: 500 } : answerModel(request);
    },
    { id: 'model' },
  );
  const names = ['a0', 'a1', 'a2'].slice(0, 2 + random.below(2));
  const agents = names.map(
    (name) =>
      new StandardAgent({
        name,
        model,
        tools: [double],
        humanInputMode: pick(['NEVER', 'TERMINATE', 'ALWAYS'], random.below(3)),
        maxToolRounds: 1 + random.below(3),
        ...(random.below(2) === 0 && { maxConsecutiveAutoReplies: random.below(3) }),
      }),
  );
  const speakerSelection = pick(['auto', 'round_robin', 'random', 'manual'] as const, random.below(4));
  return new GroupChat({
    agents,
    ...(speakerSelection === 'auto' && { selector: model }),
    ...(speakerSelection === 'random' && { seed }),
    speakerSelection,
    maxRounds: 3 + random.below(6),
    sendIntroductions: random.below(2) === 0,
    allowRepeatSpeaker: random.below(3) === 0,
  });
}

/** Lives until the conversation ends: at every call, question and checkpoint it may be stopped, and people may take their time. */
async function holdInterrupted(seed: number, manager: CheckpointManager, finished: Map<string, number>) {
  const random = chance(seed + 1000);
  for (let life = 0; life < MAX_LIVES; life++) {
    const stop = new AbortController();
    const trouble = () => void (random.below(12) === 0 && stop.abort());
    const held = new CheckpointingGroupChatManager({
      chat: createTeam(seed, { onCall: trouble, isDown: () => random.below(10) === 0, finished }),
      manager,
      sessionId: 'team',
      logs: false,
      signal: stop.signal,
      onCheckpoint: trouble,
      ask: async (request) => {
        trouble();
        return random.below(2) === 0 ? undefined : answerPerson(request);
      },
    });
    const isBegun = (await manager.latest({ sessionId: 'team' })) !== undefined;
    const result = isBegun ? await held.resume() : await held.run({ message: 'Go.' });
    if (result.status === 'ended') return result;
    if (result.status === 'failed') expect(result.error).toMatchObject({ code: 'MODEL' });
  }
  throw new Error(`Conversation ${seed} does not end.`);
}

async function statesOf(manager: CheckpointManager, branch: string): Promise<string[]> {
  const { checkpoints: all } = await manager.list({ sessionId: 'team', branch }, { limit: 1000 });
  return all
    .toReversed()
    .filter(({ trigger }) => trigger !== 'waiting_for_input' && trigger !== 'run_failed')
    .map(({ stateDigest }) => stateDigest);
}

test('[run.6] [run.1] [chat.3] stopped, failing and answered late, a conversation ends as if held in one go, and so does its replay', async () => {
  const quiet = (calls = new Map<string, number>()) => ({
    onCall: () => undefined,
    isDown: () => false,
    finished: calls,
  });
  for (let seed = 1; seed <= CONVERSATIONS; seed++) {
    const calm = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const options = { manager: calm, sessionId: 'team', logs: false } as const;
    const ask = async (request: HumanRequest) => answerPerson(request);
    const calls = new Map<string, number>();
    const chat = createTeam(seed, quiet(calls));
    const whole = await new CheckpointingGroupChatManager({ ...options, chat, ask }).run({ message: 'Go.' });
    const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
    const finished = new Map<string, number>();
    const result = await holdInterrupted(seed, manager, finished);
    const state = (await manager.load(result.checkpointId ?? '')) as ChatState;
    expect(state).toEqual(await calm.load(whole.checkpointId ?? ''));
    expect([...finished.values()]).toEqual([...calls.values()]);
    for (const { histories } of Object.values(state.agents))
      expect(histories.chat_manager?.filter(({ name }) => name !== 'chat_manager')).toEqual(state.chat.messages);

    const { checkpoints: all } = await manager.list({ sessionId: 'team' }, { limit: 1000 });
    const { registry } = createTeam(seed, quiet());
    const replay = await new CheckpointRestorer({ manager, registry }).continue(all.at(-1)?.id ?? '', {
      logs: false,
      rounds: state.chat.settings.maxRounds,
      mode: 'frozen',
    });
    expect(await statesOf(manager, replay.branch)).toEqual((await statesOf(manager, 'main')).slice(1));
  }
});
