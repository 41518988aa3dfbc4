import type { CheckpointId, SessionId } from '../../core/id.ts';
import { checkRef } from '../../storage/ref.ts';
import type { Command } from '../command.ts';
import type { Output } from '../output-schemas.ts';
import { formatTime } from '../terminal/format.ts';
import { formatPlain, formatTable } from '../terminal/table.ts';
import type { Workspace } from '../workspace.ts';

type SessionOutput = Output<'sessions'>[number];

const DEFAULT_LIMIT = 50;

/** Lists the sessions. */
export const command: Command = {
  options: [['-n <count>', `how many at most; default ${DEFAULT_LIMIT}`]],
  examples: [
    ['savestate sessions', 'the sessions that were saved to last'],
    ['savestate sessions --json -n 1000', 'many of them, for a script'],
  ],
  run: async (context, input) => {
    const workspace = await context.workspace();
    const sessions = await listSessions(workspace, input.count('n') ?? DEFAULT_LIMIT);
    const rows = sessions.map(({ id, currentBranch, branches, sequence, savedAt, status }) => [
      id,
      currentBranch,
      String(branches.length),
      `#${sequence}`,
      formatTime(new Date(savedAt)),
      status ?? '',
    ]);
    const head = ['session', 'current', 'branches', 'head', 'saved (UTC)', 'status'];
    await context.answer(sessions, () =>
      context.terminal.isScreen ? formatTable(rows, { head, right: [2, 3] }) : formatPlain(rows),
    );
    if (sessions.length === 0) context.say('There are no sessions yet.');
    return undefined;
  },
};

/** The sessions whose heads are newest; reads as many checkpoints as are shown. */
async function listSessions(workspace: Workspace, limit: number): Promise<SessionOutput[]> {
  const heads = new Map<SessionId, { headId: CheckpointId; branches: string[] }>();
  for (const ref of await workspace.storage.readRefs({ kind: 'branch' })) {
    const { sessionId, name, target } = checkRef(ref);
    const headId = target as CheckpointId;
    const known = heads.get(sessionId) ?? { headId, branches: [] };
    heads.set(sessionId, {
      headId: [headId, known.headId].toSorted()[1] ?? headId,
      branches: [...known.branches, name],
    });
  }
  const newest = [...heads].sort(([, a], [, b]) => (a.headId < b.headId ? 1 : -1)).slice(0, limit);
  return Promise.all(newest.map(([id, { headId, branches }]) => describe(workspace, id, { headId, branches })));
}

async function describe(
  workspace: Workspace,
  id: SessionId,
  { headId, branches }: { readonly headId: CheckpointId; readonly branches: string[] },
): Promise<SessionOutput> {
  const { sequence, timestamp, status, agentId, userId } = await workspace.openCheckpoint(headId);
  return {
    id,
    currentBranch: await workspace.currentBranch(id),
    branches,
    headId,
    sequence,
    savedAt: timestamp.toISOString(),
    ...(status !== undefined && { status }),
    ...(agentId !== undefined && { agentId }),
    ...(userId !== undefined && { userId }),
  };
}
