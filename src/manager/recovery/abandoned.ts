import { ConflictError, isLost, NotFoundError } from '../../core/errors.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { Ref } from '../../storage/contract.ts';
import { checkRef } from '../../storage/ref.ts';
import type { Engine } from '../engine/engine.ts';
import {
  dueBefore,
  isLeft,
  type LeasePlace,
  type LeaseState,
  moveLease,
  readClock,
  readLease,
} from '../lease/lease-refs.ts';

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

/** Which of them are listed. */
export type AbandonedOptions = {
  readonly limit?: number | undefined;
  /** @internal Whether what holders of this machine left for certain is listed at once. */
  readonly isEager?: boolean | undefined;
};

/** What is due now, oldest first, and then what is poisoned. Touches nothing, and leaves out what is damaged. */
export async function listAbandoned(engine: Engine, options: AbandonedOptions = {}): Promise<AbandonedSession[]> {
  const { limit = 1_000, isEager } = options;
  const { storage } = engine;
  const nowMs = await readClock(engine);
  const due = await storage.readDue({ before: dueBefore(nowMs, isEager), limit });
  const poisoned = (await storage.readRefs({ kind: 'due' })).filter(({ target }) => target.startsWith('poisoned:'));
  const found: AbandonedSession[] = [];
  const isListed = (lease: LeaseState) => isPoison(lease) || isLeft(lease, nowMs, isEager);
  for (const ref of [...due, ...poisoned].slice(0, limit)) found.push(...(await describe(engine, ref, isListed)));
  return found;
}

function isPoison({ dueAtMs }: LeaseState): boolean {
  return dueAtMs === Number.POSITIVE_INFINITY;
}

async function describe(
  engine: Engine,
  ref: Ref,
  isListed: (lease: LeaseState) => boolean,
): Promise<AbandonedSession[]> {
  try {
    const { sessionId, name: branch } = checkRef(ref);
    const lease = await readLease(engine, { sessionId, branch });
    if (!isListed(lease)) return [];
    const { owner, attempts, dueAtMs } = lease;
    const isPoisoned = isPoison(lease);
    return [{ sessionId, branch, owner, attempts, isPoisoned, lapsedAtMs: isPoisoned ? undefined : dueAtMs }];
  } catch (error) {
    if (!isLost(error)) throw error;
    return []; // verify names it
  }
}

/** Lets a poisoned session come up for recovery again, as if for the first time. */
export async function retryPoisoned(engine: Engine, place: LeasePlace): Promise<void> {
  const found = await readLease(engine, place);
  const { sessionId, branch } = place;
  const details = { sessionId, branch };
  if (!isPoison(found))
    throw new NotFoundError(`Branch "${branch}" of session "${sessionId}" is not poisoned.`, { details });
  const due = { dueAtMs: await readClock(engine), attempts: 0 };
  if (await moveLease(engine, found, { lease: found, due })) return;
  throw new ConflictError(`Branch "${branch}" of session "${sessionId}" was leased meanwhile.`, { details });
}
