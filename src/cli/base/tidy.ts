import { STILL_WAITS } from '../../manager/retention/retention-protections.ts';
import type { Context } from './context.ts';
import type { OpenStorage } from './open-storage.ts';

/** More sessions are not named in one sentence. */
const MAX_NAMED = 5;

/** Deletes what is older, as `cleanup_after_days` asks, but not the session in hand; names the sessions that ended, and those that still wait. */
export async function tidyByAge(context: Context, opened: OpenStorage, maxAgeDays: number): Promise<void> {
  const { manager } = opened;
  const { keepers } = manager.engine;
  const inHand = await opened.findSession();
  const ended: string[] = [];
  const whileIdle = async (id: string, end: () => Promise<boolean>): Promise<boolean> => {
    const isEnded = id !== inHand && (await end());
    if (isEnded) ended.push(id);
    return isEnded;
  };
  const keeper = { forget: () => undefined, whileIdle };
  keepers.add(keeper);
  try {
    const { deleted, verdicts } = await manager.prune({ policy: { maxAgeDays } });
    const named = ended.length === 0 ? '' : ` Sessions ended: ${formatNames(ended)}.`;
    if (deleted.length > 0)
      context.say(`${deleted.length} older than ${maxAgeDays} days deleted (cleanup_after_days).${named}`);
    const waiting = verdicts.filter(({ keep, reason }) => keep && reason.includes(STILL_WAITS));
    const kept = await Promise.all(waiting.map(async ({ id }) => (await manager.open(id)).sessionId));
    const others = [...new Set(kept)].filter((id) => id !== inHand);
    if (others.length > 0)
      context.say(
        `Older than ${maxAgeDays} days and kept, because they wait for somebody: ${formatNames(others)}. To end one: savestate forget --whole-session <name>`,
      );
  } finally {
    keepers.delete(keeper);
  }
}

function formatNames(names: readonly string[]): string {
  return `${names.slice(0, MAX_NAMED).join(', ')}${names.length > MAX_NAMED ? `, and ${names.length - MAX_NAMED} more` : ''}`;
}
