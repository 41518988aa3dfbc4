import type { AgentRegistry } from '../agent/agent-registry.ts';
import type { Difference } from '../run/differences.ts';
import { adoptAgents } from '../run/team-facts.ts';
import type { RestorableKind } from '../run/team-restorer.ts';
import { checkEndRules } from './chat-end.ts';
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
  findMissing: findMissingCode,
  make: (agents, registry) => new GroupChat({ agents, registry }),
  override: (chat, settings) => {
    if (settings.end !== undefined) checkEndRules(settings.end);
    chat.change({
      settings: { ...chat.record.settings, ...settings },
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

function findMissingCode({ chat: { settings } }: ChatState, registry: AgentRegistry): Difference[] {
  const { speakerSelection, selectorModelId, end } = settings;
  const selector = typeof speakerSelection === 'object' ? speakerSelection.selector : undefined;
  const names = [
    { what: 'predicate', name: end.predicate, isKnown: (name: string) => registry.predicate(name) !== undefined },
    { what: 'selector', name: selector, isKnown: (name: string) => registry.selector(name) !== undefined },
    { what: 'model', name: selectorModelId ?? undefined, isKnown: (name: string) => registry.hasModel(name) },
  ];
  return names.flatMap(({ what, name, isKnown }) => {
    if (name === undefined || isKnown(name)) return [];
    const text = `The ${what} "${name}" of the group is not registered.`;
    return [{ path: `$.chat.settings.${what}`, kind: 'missing', text }];
  });
}
