import { resolve } from 'node:path';
import type { RunMemory } from '../../runtime/agent/run-memory.ts';
import type { CommandInput } from '../base/command-input.ts';
import type { Context } from '../base/context.ts';
import type { OpenStorage } from '../base/open-storage.ts';
import type { Team } from './open-team.ts';
import type { Talk } from './talk.ts';
import { readOnDifference } from './talk-options.ts';
import { TalkUnderSettings } from './talk-under-settings.ts';
import { TeamTalk } from './team-talk.ts';

/** A talk that is open, to be closed at its end. */
export type OpenTalk = { readonly talk: Talk; readonly close: () => Promise<void> };

/** Opens the talk with a team, with the memory that savestate.yaml or SAVESTATE_MEMORY names, under the settings of workflow.yaml. */
export async function openTalk(
  context: Context,
  { team, opened }: { readonly team: Team; readonly opened: OpenStorage },
  input?: CommandInput,
): Promise<OpenTalk> {
  const logs = input?.text('logs');
  const userId = input?.text('user') ?? (context.env.SAVESTATE_USER || undefined);
  const memory = await findMemory(context, opened, userId);
  const talk = new TeamTalk(team, {
    checkpoints: opened.manager,
    logs: logs === undefined ? false : resolve(context.folder, logs),
    memory,
    userId,
    onDifference: input && readOnDifference(input),
    author: context.author ?? 'user',
  });
  const settings = await context.settings();
  return {
    talk: settings === undefined ? talk : new TalkUnderSettings(talk, context, settings),
    close: async () => memory?.memory.close(),
  };
}

async function findMemory(context: Context, opened: OpenStorage, userId?: string): Promise<RunMemory | undefined> {
  if (!context.env.SAVESTATE_MEMORY && (await context.config())?.config.memory === undefined) return undefined;
  const { openMemory } = await import('../memory/open-memory.ts');
  const memory = await openMemory(context, { manager: opened.manager, isCreated: true });
  return { memory, scope: { userId: userId ?? context.user } };
}
