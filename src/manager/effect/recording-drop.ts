import type { SessionId } from '../../core/record/id.ts';
import { digestText } from '../../core/tree/chunk.ts';
import type { EffectRow } from '../../storage/contract.ts';
import type { Engine } from '../engine/engine.ts';
import { eachSession, parseRow, readPages } from '../engine/records.ts';
import { formatEffect, parseEffect } from './effect-record.ts';

const BATCH = 200;

/** A branch, and the first of its recordings that a kept checkpoint goes on from. */
type Floor = { readonly branch: string; readonly ordinal: number };

/**
 * Drops the results of the steps of a session that no kept checkpoint goes on from: those recorded before the oldest one of their
 * branch. Their places in the log stay, so that nothing is taken for something else. Returns how many went.
 */
export async function dropRecordings(engine: Engine, sessionId: SessionId): Promise<number> {
  await engine.settled();
  // Read at once: a session may have thousands of branches.
  const marks = await engine.repository.readRefs({ sessionId, kind: 'mark' });
  const done = new Map(marks.map(({ name, target }) => [name, Number(target)]));
  let count = 0;
  for (const floor of await readFloors(engine, sessionId)) {
    const mark = `dropped:${digestText(floor.branch)}`;
    count += await dropBelow(engine, sessionId, { ...floor, mark, from: done.get(mark) ?? 0 });
  }
  return count;
}

/** The same of all sessions. */
export async function dropAllRecordings(engine: Engine): Promise<number> {
  let count = 0;
  for await (const sessionId of eachSession(engine.storage)) count += await dropRecordings(engine, sessionId);
  return count;
}

/** Only of branches that are there: other logs belong to somebody else. */
async function readFloors({ storage, repository }: Engine, sessionId: SessionId): Promise<Floor[]> {
  const floors = new Map<string, number>();
  const needed = (branch: string, ordinal: number) =>
    floors.set(branch, Math.min(floors.get(branch) ?? Number.POSITIVE_INFINITY, ordinal));
  const branchOf = new Map<string, string>();
  for await (const rows of readPages(storage, { sessionId }))
    for (const { id, header } of rows.map(parseRow)) {
      const { branch, effectCount = 0, effectsInFlight = [] } = header;
      branchOf.set(id, branch);
      needed(branch, Math.min(effectCount, ...effectsInFlight));
    }
  const branches = await repository.readRefs({ sessionId, kind: 'branch' });
  // A branch whose head is still that of another one has all its recordings before it.
  for (const { name, target } of branches) if (branchOf.get(target) !== name) needed(name, 0);
  return branches.map(({ name }) => ({ branch: name, ordinal: floors.get(name) ?? 0 }));
}

/** What is dropped of a branch now, and where it is noted. */
type Drop = Floor & { readonly mark: string; readonly from: number };

async function dropBelow({ storage }: Engine, sessionId: SessionId, drop: Drop): Promise<number> {
  const { branch, ordinal, mark, from } = drop;
  if (ordinal <= from) return 0;
  const rows = await storage.readEffects({ sessionId, branch, fromOrdinal: from });
  const doomed = rows.filter((row) => row.ordinal < ordinal).flatMap(withoutResult);
  for (let at = 0; at < doomed.length; at += BATCH)
    await storage.commit({ sessionId, effects: doomed.slice(at, at + BATCH) });
  await storage.commit({ sessionId, refs: [{ kind: 'mark', name: mark, target: String(ordinal) }] });
  return doomed.length;
}

/** The row without what the step brought; none if there is nothing to drop. */
function withoutResult(row: EffectRow): EffectRow[] {
  if (row.result === undefined) return [];
  const { branch, result: _, ...record } = parseEffect(row);
  return [formatEffect({ sessionId: row.sessionId, branch }, { ...record, status: 'dropped' })];
}
