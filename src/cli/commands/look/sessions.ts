import { withoutUndefined } from '../../../core/defined.ts';
import { hasErrorCode } from '../../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../../core/record/id.ts';
import { checkRef } from '../../../storage/ref.ts';
import type { Command } from '../../base/command.ts';
import { type OpenStorage, threadOf } from '../../base/open-storage.ts';
import { formatCount, formatRows, formatTime } from '../../terminal/format.ts';

const DEFAULT_LIMIT = 50;

/** Lists the sessions. */
export const command: Command = {
  options: [
    ['-n <count>', `how many at most; default ${DEFAULT_LIMIT}`],
    ['--all', 'those of subgraphs of LangGraph too, which are listed with their thread otherwise'],
  ],
  examples: [
    ['savestate sessions', 'the sessions that were saved to last'],
    ['savestate sessions --json -n 1000', 'many of them, for a script'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    const listing: Listing = {
      limit: input.count('n') ?? DEFAULT_LIMIT,
      isWhole: input.flag('all'),
      onDamage: (id) => context.say(`Session ${JSON.stringify(id)} is damaged and not shown. Run savestate verify.`),
    };
    const sessions = await listSessions(opened, listing);
    const rows = sessions.map(({ id, currentBranch, branches, sequence, savedAt, status, subgraphs = [] }) => [
      subgraphs.length === 0 ? id : `${id} (+${formatCount(subgraphs.length, 'subgraph')})`,
      currentBranch,
      String(branches.length),
      `#${sequence}`,
      formatTime(new Date(savedAt)),
      status ?? '',
    ]);
    const head = ['session', 'current', 'branches', 'head', 'saved (UTC)', 'status'];
    await context.answer(sessions, () => formatRows(context.terminal, rows, { head, right: [2, 3] }));
    if (sessions.length === 0) context.say('There are no sessions yet.');
  },
};

type Heads = ReadonlyMap<string, CheckpointId>;

type Listing = {
  readonly limit: number;
  readonly isWhole: boolean;
  readonly onDamage: (sessionId: SessionId) => void;
};

/** The sessions that were saved to last; reads as many checkpoints as are shown. */
async function listSessions(opened: OpenStorage, { limit, isWhole, onDamage }: Listing) {
  const sessions = new Map<SessionId, Map<string, CheckpointId>>();
  for (const ref of await opened.storage.readRefs({ kind: 'branch' })) {
    const { sessionId, name, target } = checkRef(ref);
    const heads = sessions.get(sessionId) ?? new Map<string, CheckpointId>();
    sessions.set(sessionId, heads.set(name, target as CheckpointId));
  }
  const subgraphs = isWhole ? new Map<SessionId, SessionId[]>() : takeSubgraphs(sessions);
  const newest = [...sessions].sort(([, a], [, b]) => (newestOf(a) < newestOf(b) ? 1 : -1)).slice(0, limit);
  const outcomes = await Promise.allSettled(newest.map(([id, heads]) => describe(opened, id, heads)));
  return outcomes.flatMap((outcome, at) => {
    const id = newest[at]?.[0] as SessionId;
    const inside = subgraphs.get(id);
    if (outcome.status === 'fulfilled') return [{ ...outcome.value, subgraphs: inside }];
    if (!isDamage(outcome.reason)) throw outcome.reason;
    onDamage(id);
    return [];
  });
}

function isDamage(error: unknown): boolean {
  return hasErrorCode(error, 'CORRUPT') || hasErrorCode(error, 'NOT_FOUND');
}

/** Takes the sessions of subgraphs out of the list; answers them by their threads. */
function takeSubgraphs(sessions: Map<SessionId, unknown>): Map<SessionId, SessionId[]> {
  const found = new Map<SessionId, SessionId[]>();
  for (const sessionId of sessions.keys()) {
    const thread = threadOf(sessionId);
    if (thread === sessionId || !sessions.has(thread)) continue;
    sessions.delete(sessionId);
    found.set(thread, [...(found.get(thread) ?? []), sessionId]);
  }
  return found;
}

/** Ids sort by time. */
function newestOf(heads: Heads): string {
  return [...heads.values()].reduce((newest, each) => (each > newest ? each : newest), '');
}

/** A session with the head of the branch that it names. */
async function describe(opened: OpenStorage, id: SessionId, heads: Heads) {
  const currentBranch = await opened.manager.currentBranch(id);
  const headId = heads.get(currentBranch) ?? (newestOf(heads) as CheckpointId);
  const { sequence, timestamp, status, agentId, userId } = await opened.openCheckpoint(headId);
  return {
    id,
    currentBranch,
    branches: [...heads.keys()],
    headId,
    sequence,
    savedAt: timestamp.toISOString(),
    ...withoutUndefined({ status, agentId, userId }),
  };
}
