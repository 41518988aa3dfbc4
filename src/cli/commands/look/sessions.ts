import { listSessions, type SessionListing } from '../../../view/list-sessions.ts';
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
    const opened = await context.open();
    const listing: SessionListing = {
      limit: input.limit() ?? DEFAULT_LIMIT,
      isWhole: input.flag('all'),
      onDamage: (id) =>
        context.say(`Session ${JSON.stringify(id)} is damaged and not shown. Run savestate verify --read-data.`),
    };
    const sessions = await listSessions(opened.manager, listing);
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
    if (sessions.length === 0) context.say('There are no sessions yet.');
  },
};
