import { ConflictError, toInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import { parseSessionId } from '../../core/record/id.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { parseRows, readPages } from '../../manager/engine/records.ts';
import { Scale } from '../../manager/figures/scale.ts';
import { isDamagedFile } from '../../manager/transfer/import.ts';
import { readProtecting } from '../../view/checkpoint-output.ts';
import { countVerdicts, measureStorage, type Save, toGrowth } from '../../view/figures.ts';
import type { Call, Handlers } from './call.ts';
import { openRefs } from './session-refs.ts';

const HEAVIEST = 50;
/** Of what retention would delete so many are named. */
const MAX_NAMED = 1_000;
/** Of growth over time so many paths are told apart. */
const TOLD_PATHS = 3;
const BUCKETS = 30;

/** Answers what is asked about what is stored, and what is to be deleted, written or read. */
export const KEEP_HANDLERS = {
  'GET /v1/storage': ({ manager, query, watch }) =>
    measureStorage(manager, (total) => watch(readAll(manager, query.session), total)),
  'GET /v1/storage/growth': measureGrowth,
  'POST /v1/retention/preview': previewRetention,
  'POST /v1/prune': async ({ manager, body, signal }) => {
    const { expect, collect = false, ...what } = body;
    const options = toPruneOptions(what);
    const { dropped } = countVerdicts(await manager.prune({ ...options, dryRun: true }));
    if (dropped !== expect)
      throw new ConflictError(
        `Retention would delete ${dropped} checkpoints now, not ${expect}. Look at the preview again.`,
      );
    const result = await manager.prune(options);
    const freed = collect ? await manager.gc({ signal }) : undefined;
    return {
      ...countVerdicts(result),
      deleted: result.deleted,
      ...(freed !== undefined && { freedBytes: freed.bytes }),
    };
  },
  'POST /v1/verify': async ({ manager, body }) => {
    const report = await manager.verify({ readData: body.readData });
    return { ...report, verifiedAt: new Date(manager.engine.ports.now()).toISOString() };
  },
  'GET /v1/sessions/{session}/export': async ({ manager, params }) => {
    const { sessionId } = await openRefs(manager, params.session); // what is not there fails before the stream begins
    return manager.exportSession(sessionId);
  },
  'POST /v1/import': ({ manager, body }) =>
    manager.importSession(body).catch((error: unknown) => {
      throw isDamagedFile(error) ? toInputError(error, 'Nothing was imported.') : error;
    }),
  'DELETE /v1/sessions/{session}': async ({ manager, params }) => {
    const { sessionId } = await openRefs(manager, params.session);
    return { isDeleted: await manager.deleteSession(sessionId) };
  },
  'DELETE /v1/checkpoints/{checkpoint}': async ({ manager, params }) => {
    const checkpoint = await manager.open(params.checkpoint);
    if (await manager.delete(checkpoint.id, { reason: 'deleted by a person' })) return { isDeleted: true };
    const [name = 'a branch, tag or pin'] = (await readProtecting(manager.engine.storage, [checkpoint])).values();
    throw new ConflictError(`${checkpoint.id} is the checkpoint of ${name}. Remove that first.`);
  },
} satisfies Partial<Handlers>;

/** The live checkpoints, oldest first, without damaged ones. */
async function* readAll({ engine }: CheckpointManager, session: string | undefined) {
  await engine.settled();
  const place = session === undefined ? {} : { sessionId: parseSessionId(session) };
  for await (const rows of readPages(engine.storage, { ...place, order: 'oldest' }))
    yield* (await parseRows(rows)).checkpoints;
}

async function measureGrowth({ manager, query, signal }: Call<'GET /v1/storage/growth'>) {
  const scale = new Scale(manager.engine.storage);
  const fromMs = query.from === undefined ? undefined : Date.parse(query.from);
  const saves: Save[] = [];
  const grown = new Map<string, number>();
  const sessions = new Map<string, { checkpoints: number; logicalBytes: number; uniqueBytes: number }>();
  for await (const checkpoint of readAll(manager, query.session)) {
    const { sessionId, stateBytes, header } = checkpoint;
    const uniqueBytes = await scale.add(checkpoint, signal);
    saves.push({ timeMs: header.timestampMs, bytes: stateBytes, uniqueBytes, paths: scale.added });
    if (header.timestampMs >= (fromMs ?? 0))
      for (const [path, bytes] of scale.added) grown.set(path, (grown.get(path) ?? 0) + bytes);
    const known = sessions.get(sessionId) ?? { checkpoints: 0, logicalBytes: 0, uniqueBytes: 0 };
    sessions.set(sessionId, {
      checkpoints: known.checkpoints + 1,
      logicalBytes: known.logicalBytes + stateBytes,
      uniqueBytes: known.uniqueBytes + uniqueBytes,
    });
  }
  const paths = [...grown].map(([path, uniqueBytes]) => ({ path, uniqueBytes })).sort(byUniqueBytes);
  const told = paths.slice(0, TOLD_PATHS).map(({ path }) => path);
  return {
    checkpoints: saves.length,
    logicalBytes: saves.reduce((sum, { bytes }) => sum + bytes, 0),
    uniqueBytes: scale.totalBytes,
    growth: toGrowth(
      saves.sort((a, b) => a.timeMs - b.timeMs),
      { fromMs, paths: told },
    ),
    paths: paths.slice(0, HEAVIEST),
    sessions: [...sessions]
      .map(([id, figures]) => ({ id, ...figures }))
      .sort(byUniqueBytes)
      .slice(0, HEAVIEST),
  };
}

type Weighed = { readonly uniqueBytes: number };

function byUniqueBytes(a: Weighed, b: Weighed): number {
  return b.uniqueBytes - a.uniqueBytes;
}

type Judged = Call<'POST /v1/retention/preview'>['body'];

function toPruneOptions({ policy, session }: Judged) {
  return { policy, ...(session !== undefined && { sessionId: parseSessionId(session) }) };
}

/** What would go is weighed after all that stays: so it weighs what only it has. */
async function previewRetention({ manager, body, signal }: Call<'POST /v1/retention/preview'>) {
  const result = await manager.prune({ ...toPruneOptions(body), dryRun: true });
  const verdicts = new Map(result.verdicts.map((verdict) => [verdict.id as string, verdict]));
  const stays = ({ id }: Checkpoint) => verdicts.get(id)?.keep !== false;
  const scale = new Scale(manager.engine.storage);
  const [staying, going] = [[] as Checkpoint[], [] as Checkpoint[]];
  for await (const checkpoint of readAll(manager, undefined)) (stays(checkpoint) ? staying : going).push(checkpoint);
  const weighed: { readonly checkpoint: Checkpoint; readonly isKept: boolean; readonly bytes: number }[] = [];
  for (const checkpoint of [...staying, ...going]) {
    const bytes = await scale.add(checkpoint, signal);
    weighed.push({ checkpoint, isKept: stays(checkpoint), bytes });
  }
  const freed = weighed.filter(({ isKept }) => !isKept);
  return {
    ...countVerdicts(result),
    freedBytes: freed.reduce((sum, { bytes }) => sum + bytes, 0),
    buckets: toBuckets(
      weighed.map(({ checkpoint, ...weight }) => ({ timeMs: checkpoint.header.timestampMs, ...weight })),
    ),
    sessions: bySession(freed),
    going: going.slice(0, MAX_NAMED).map(({ id, sessionId, branch, sequence, timestamp }) => ({
      id,
      sessionId,
      branch,
      sequence,
      savedAt: timestamp.toISOString(),
      reason: verdicts.get(id)?.reason ?? '',
    })),
  };
}

/** What would stay and what would go, over time. */
function toBuckets(weighed: readonly { readonly timeMs: number; readonly isKept: boolean; readonly bytes: number }[]) {
  const times = weighed.map(({ timeMs }) => timeMs);
  const [firstMs, lastMs] = [
    times.reduce((a, b) => Math.min(a, b), times[0] ?? 0),
    times.reduce((a, b) => Math.max(a, b), 0),
  ];
  const widthMs = Math.max(1, (lastMs - firstMs) / BUCKETS);
  const buckets = Array.from({ length: weighed.length === 0 ? 0 : BUCKETS }, (_, n) => ({
    until: new Date(firstMs + widthMs * (n + 1)).toISOString(),
    keptBytes: 0,
    freedBytes: 0,
  }));
  for (const { timeMs, isKept, bytes } of weighed) {
    const bucket = buckets[Math.min(BUCKETS - 1, Math.floor((timeMs - firstMs) / widthMs))];
    if (bucket !== undefined) bucket[isKept ? 'keptBytes' : 'freedBytes'] += bytes;
  }
  return buckets;
}

/** What each session would lose, most first. */
function bySession(freed: readonly { readonly checkpoint: Checkpoint; readonly bytes: number }[]) {
  const sessions = new Map<string, { checkpoints: number; uniqueBytes: number }>();
  for (const { checkpoint, bytes } of freed) {
    const { checkpoints, uniqueBytes } = sessions.get(checkpoint.sessionId) ?? { checkpoints: 0, uniqueBytes: 0 };
    sessions.set(checkpoint.sessionId, { checkpoints: checkpoints + 1, uniqueBytes: uniqueBytes + bytes });
  }
  const sorted = [...sessions].map(([id, figures]) => ({ id, ...figures })).sort(byUniqueBytes);
  return sorted
    .slice(0, HEAVIEST)
    .map(({ id, checkpoints, uniqueBytes: freedBytes }) => ({ id, checkpoints, freedBytes }));
}
