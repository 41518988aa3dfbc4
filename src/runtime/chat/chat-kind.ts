import { adoptAgents } from '../run/team-facts.ts';
import type { RestorableKind } from '../run/team-restorer.ts';
import { changeSettings, findMissingCode } from './chat-settings.ts';
import { type ChatSettings, type ChatState, parseChatState } from './chat-state.ts';
import { GroupChat } from './group-chat.ts';

/** How group chats are compared with their checkpoints, and made of them. */
export const CHAT: RestorableKind<ChatState, GroupChat, ChatSettings> = {
  noun: 'conversation',
  parse: parseChatState,
  settingsOf: ({ chat: { settings } }) => {
    const { managerName: _, seed: __, ...rest } = settings; // a name and a beginning, which stay
    return rest;
  },
  adopt: adoptCode,
  findMissing: ({ chat: { settings } }, registry) => findMissingCode(settings, registry),
  make: (agents, registry) => new GroupChat({ agents, registry, speakerSelection: 'round_robin' }), // until its own settings are loaded
  override: (chat, settings) => {
    chat.change({
      settings: changeSettings(
        chat.record.settings,
        settings,
        chat.agents.map(({ name }) => name),
      ),
      ...(settings.maxRounds !== undefined && { roundLimit: settings.maxRounds }),
      ...(settings.seed !== undefined && { randomState: settings.seed }),
    });
  },
};

function adoptCode(state: ChatState, code: ChatState): ChatState {
  const { settings: was, roundLimit, stage, messages } = state.chat;
  const settings = { ...code.chat.settings, managerName: was.managerName, seed: was.seed };
  const heard = { status: 'running', histories: { [was.managerName]: messages } } as const;
  return {
    ...state,
    ...adoptAgents(state, code, stage === 'open' ? heard : {}),
    chat: {
      ...state.chat,
      settings,
      roundLimit: Math.max(0, roundLimit + settings.maxRounds - was.maxRounds),
    },
  };
}
