import { z } from 'zod';

const text = z.string();
const texts = z.array(text);
const count = z.number().nonnegative();
const content = { text, refs: texts };
const row = z.object({ id: text, sessionId: text, digest: text, body: text, isDeleted: z.boolean() });
const chunk = z.object({ ...content, digest: text });
const ref = z.object({ sessionId: text, kind: text, name: text, target: text, check: text });
const effect = z.object({
  sessionId: text,
  branch: text,
  ordinal: count,
  body: text,
  result: z.object(content).optional(),
  digest: text,
});

/** What a server says it is. */
export const aboutReply = z.object({
  version: text,
  kind: text,
  limits: z.object({ maxCheckpoints: count.optional(), maxCheckpointsPerUser: count.optional() }),
  offers: texts,
});

/**
 * What each method of a storage returns: whatever is at the address of a server may reply with anything. Apart from the table of routes,
 * which whoever serves loads, and a client does not.
 */
export const STORAGE_RESULTS: { readonly [method: string]: z.ZodType } = {
  readChunks: z.array(chunk.nullable()).min(1),
  readReachable: z.array(chunk),
  readCheckpoint: row.extend({ root: z.object(content).optional() }).optional(),
  listCheckpoints: z.array(row),
  readRefs: z.array(ref),
  readDue: z.array(ref),
  readEffects: z.array(effect),
  listSessions: texts,
  listChunks: texts,
  checkIntegrity: texts,
  stats: z.object({ checkpoints: count, tombstones: count, chunks: count, sessions: count, bytes: count }),
  now: z.number(),
  commit: z.object({ status: z.enum(['stored', 'duplicate']), id: text.optional() }),
  deleteCheckpoints: texts,
  foldTombstones: texts,
  deleteSession: z.boolean(),
  collect: z.object({ chunks: count, bytes: count }),
};
