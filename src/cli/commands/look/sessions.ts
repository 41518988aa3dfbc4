import type { CheckpointManager } from '../../../manager/checkpoint-manager.ts';
import { isCutOff } from '../../../manager/engine/cut-off.ts';
import { eachSession } from '../../../manager/engine/records.ts';
import { describeSession, rankSessions } from '../../../view/list-sessions.ts';
import type { Command } from '../../base/command.ts';
import { clip, formatCount, formatRows, formatTime } from '../../terminal/format.ts';

const DEFAULT_LIMIT = 50;
const MIN_ID_CHARS = 24;

/** Lists the sessions. */
export const command: Command = {
  options: [
    ['-n <count>', `maximum number; default ${DEFAULT_LIMIT}`],
    ['--all', 'list LangGraph subgraphs separately, not with their thread'],
  ],
  examples: [
    ['savestate sessions', 'the most recently saved sessions'],
    ['savestate sessions --json -n 1000', 'many of them, for a script'],
  ],
  run: async (context, input) => {
    const { manager } = await context.open();
    const all = await rankSessions(manager, input.flag('all'));
    const ranked = all.slice(0, input.limit() ?? DEFAULT_LIMIT);
    const described = await Promise.all(ranked.map((session) => describeSession(manager, session)));
    for (const [at, session] of described.entries())
      if (session === undefined)
        context.say(
          `Session ${JSON.stringify(ranked[at]?.id)} is damaged and not shown. Run savestate verify --read-data.`,
        );
    const sessions = described.filter((session) => session !== undefined && session !== 'forgotten');
    const forgotten = described.filter((session) => session === 'forgotten').length;
    if (forgotten > 0)
      context.say(`${formatCount(forgotten, 'session')} not shown: the key was removed. savestate verify names them.`);
    const { isScreen, columns } = context.terminal;
    const idChars = Math.max(MIN_ID_CHARS, Math.floor(columns / 3)); // a long id leaves room for the other columns
    const rows = sessions.map(({ id, currentBranch, branches, sequence, savedAt, status, subgraphs = [], steps }) => [
      `${isScreen ? clip(id, idChars) : id}${subgraphs.length === 0 ? '' : ` (+${formatCount(subgraphs.length, 'subgraph')})`}`,
      currentBranch,
      String(branches.length),
      steps === undefined ? `#${sequence}` : 'none',
      formatTime(new Date(savedAt)),
      status ?? (steps === undefined ? '' : `${formatCount(steps, 'step')}, no checkpoint`),
    ]);
    const head = ['session', 'current', 'branches', 'head', 'saved (UTC)', 'status'];
    await context.answer(sessions, () => formatRows(context.terminal, rows, { head, right: [2, 3], spare: [2, 4, 1] }));
    const cutOff = await findCutOff(manager, new Set(all.map(({ id }) => id)));
    if (cutOff.length > 0)
      context.say(
        `${formatCount(cutOff.length, 'session')} cannot be listed, such as ${JSON.stringify(cutOff[0])}: a backup or copy to this storage was cut off, or is under way. Repeat that one.`,
      );
    else if (ranked.length === 0) context.say('There are no sessions yet.');
  },
};

/** The sessions that have checkpoints and no names. */
async function findCutOff({ engine }: CheckpointManager, listed: ReadonlySet<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const id of eachSession(engine.storage, { onDamaged: () => undefined }))
    if (!listed.has(id) && (await isCutOff(engine.storage, id))) found.push(id);
  return found;
}
