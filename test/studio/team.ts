import { once } from 'node:events';
import type { CheckpointManager } from '../../src/manager/checkpoint-manager.ts';
import { StandardAgent } from '../../src/runtime/agent/standard-agent.ts';
import { CheckpointingGroupChatManager } from '../../src/runtime/chat/checkpointing-group-chat-manager.ts';
import { GroupChat } from '../../src/runtime/chat/group-chat.ts';
import type { ServedTeam } from '../../src/server/index.ts';
import { scriptedModel } from '../../src/testing/model/scripted-model.ts';

type Request = Parameters<ServedTeam['run']>[0];

/** A person and a planner, who speak in turn; what is run after the first time goes on until it is paused. */
export function holdTeam() {
  const requests: Request[] = [];
  let manager: CheckpointManager | undefined;
  const talk = (signal?: AbortSignal) => {
    const model = scriptedModel(() => 'Take the train.', { id: 'planner-model' });
    const planner = new StandardAgent({ name: 'planner', systemMessage: 'You plan.', model });
    const person = new StandardAgent({ name: 'person', humanInputMode: 'ALWAYS' });
    const chat = new GroupChat({ agents: [person, planner], speakerSelection: 'round_robin', maxRounds: 2 });
    if (manager === undefined) throw new Error('begin() comes first');
    return new CheckpointingGroupChatManager({
      chat,
      manager,
      sessionId: 'trip',
      logs: false,
      ...(signal && { signal }),
    });
  };
  return {
    requests,
    team: {
      label: 'trip.yaml',
      run: async (request: Request) => {
        requests.push(request);
        const { rounds, signal } = request;
        if (requests.length > 1) await once(signal, 'abort');
        return talk(signal).resume(rounds === undefined ? {} : { rounds });
      },
    } satisfies ServedTeam,
    begin: async (given: CheckpointManager) => {
      manager = given;
      await talk().run({ message: 'Plan a trip.' });
    },
  };
}
