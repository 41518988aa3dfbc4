import { ConflictError, hasErrorCode, NotFoundError } from '../core/errors.ts';
import type { SessionId } from '../core/id.ts';
import type { Ref } from '../storage/contract.ts';
import { checkRef } from '../storage/ref.ts';
import type { Engine } from './engine.ts';
import { dueBefore, type LeasePlace, moveLease, readClock, readLease } from './lease-refs.ts';

/** A session whose writer is gone, or whose recovery failed and is due again. */
export type AbandonedSession = {
  readonly sessionId: SessionId;
  readonly branch: string;
  /** The last one who had it. */
  readonly owner: string | undefined;
  /** Since when it is due; absent if it is poisoned. */
  readonly lapsedAtMs: number | undefined;
  /** How many recoveries were begun. */
  readonly attempts: number;
  /** Whether it used up its attempts, so that it does not come up by itself. */
  readonly isPoisoned: boolean;
};

/** What is due now, oldest first, and then what is poisoned. Touches nothing, and leaves out what is damaged. */
export async function listAbandoned(
  context: Engine,
  { limit = 1_000 }: { readonly limit?: number | undefined } = {},
): Promise<AbandonedSession[]> {
  const { storage } = context;
  const due = await storage.readDue({ before: dueBefore(await readClock(context)), limit });
  const poisoned = (await storage.readRefs({ kind: 'due' })).filter(({ target }) => target.startsWith('poisoned:'));
  const found: AbandonedSession[] = [];
  for (const ref of [...due, ...poisoned].slice(0, limit)) found.push(...(await describe(context, ref)));
  return found;
}

async function describe(context: Engine, ref: Ref): Promise<AbandonedSession[]> {
  try {
    const { sessionId, name: branch } = checkRef(ref);
    const { owner, attempts, dueAtMs } = await readLease(context, { sessionId, branch });
    const isPoisoned = dueAtMs === Number.POSITIVE_INFINITY;
    return [{ sessionId, branch, owner, attempts, isPoisoned, lapsedAtMs: isPoisoned ? undefined : dueAtMs }];
  } catch (error) {
    if (!hasErrorCode(error, 'CORRUPT')) throw error;
    return []; // verify names it
  }
}

/** Lets a poisoned session come up for recovery again, as if for the first time. */
export async function retryPoisoned(context: Engine, place: LeasePlace): Promise<void> {
  const found = await readLease(context, place);
  const { sessionId, branch } = place;
  const details = { sessionId, branch };
  if (found.dueAtMs !== Number.POSITIVE_INFINITY)
    throw new NotFoundError(`Branch "${branch}" of session "${sessionId}" is not poisoned.`, { details });
  const due = { dueAtMs: await readClock(context), attempts: 0 };
  if (await moveLease(context, found, { lease: found, due })) return;
  throw new ConflictError(`Branch "${branch}" of session "${sessionId}" was leased meanwhile.`, { details });
}
