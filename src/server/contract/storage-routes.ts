import { z } from 'zod';
import { count, json } from '../../view/shapes.ts';
import type { RouteTable } from './route.ts';

const text = z.string();
const texts = z.array(text);
const limit = count;
/** Kept as it is: any key may be in it, `__proto__` too. */
const metadata = z.custom<object>((value) => typeof value === 'object' && value !== null);
const content = { text, refs: texts };
const kind = z.enum(['branch', 'tag', 'pin', 'mark', 'current', 'lease', 'due', 'log', 'group', 'import']);
const ref = z.strictObject({ sessionId: text, kind, name: text, target: text, check: text });

const query = z.strictObject({
  sessionId: text.optional(),
  branch: text.optional(),
  agentId: text.optional(),
  userId: text.optional(),
  type: text.optional(),
  status: text.optional(),
  fromMs: z.number().optional(),
  toMs: z.number().optional(),
  metadata: metadata.optional(),
  idPrefix: text.optional(),
  order: z.enum(['newest', 'oldest']).optional(),
  after: text.optional(),
  limit,
  offset: count.optional(),
  include: z.enum(['live', 'all']).optional(),
});

const effect = z.strictObject({
  sessionId: text,
  branch: text,
  ordinal: count,
  body: text,
  result: z.strictObject(content).optional(),
  digest: text,
});

/** A commit as it travels: what a header says is read from its body again. */
const commit = z.strictObject({
  sessionId: text,
  checkpoint: z.strictObject({ body: text, digest: text, root: z.strictObject(content) }).optional(),
  chunks: z.array(z.strictObject({ ...content, digest: text })).optional(),
  effects: z.array(effect.extend({ expect: text.nullable().optional() })).optional(),
  refs: z
    .array(z.strictObject({ kind, name: text, expect: text.nullable().optional(), target: text.nullable() }))
    .optional(),
  requires: texts.optional(),
  durability: z.enum(['default', 'relaxed']).optional(),
  isUrgent: z.boolean().optional(),
  keyOf: text.optional(),
});

const reads = {
  readChunks: z.tuple([texts]),
  readReachable: z.tuple([texts]),
  readCheckpoint: z.tuple([text]),
  listCheckpoints: z.tuple([query]),
  readRefs: z.tuple([
    z.strictObject({ sessionId: text.optional(), kind: kind.optional(), name: text.optional() }).optional(),
  ]),
  readDue: z.tuple([z.strictObject({ before: text, limit })]),
  readEffects: z.tuple([z.strictObject({ sessionId: text, branch: text.optional(), fromOrdinal: z.int().optional() })]),
  listSessions: z.tuple([z.strictObject({ after: text.optional(), limit })]),
  listChunks: z.tuple([z.strictObject({ after: text.optional(), limit })]),
  checkIntegrity: z.tuple([]),
  stats: z.tuple([]),
  now: z.tuple([]),
  countForgotten: z.tuple([query.omit({ limit: true, after: true, offset: true })]),
};

const changes = {
  commit: z.tuple([commit]),
  deleteCheckpoints: z.tuple([
    z.array(z.strictObject({ id: text, body: text })),
    z.strictObject({ force: z.boolean().optional() }).optional(),
  ]),
  foldTombstones: z.tuple([z.array(z.strictObject({ id: text, expect: text, body: text, removes: texts }))]),
  dropEffects: z.tuple([z.strictObject({ sessionId: text, branch: text, before: count, limit })]),
  deleteSession: z.tuple([text, z.strictObject({ ifRefs: z.array(ref).optional() }).optional()]),
  collect: z.tuple([]),
};

/** One of these methods of the storage, with its arguments. */
function oneOf<Calls extends Readonly<Record<string, z.ZodType>>>(calls: Calls) {
  const optional = Object.fromEntries(Object.entries(calls).map(([name, given]) => [name, given.optional()]));
  return z
    .strictObject(optional as { [Name in keyof Calls]: z.ZodOptional<Calls[Name]> })
    .refine((body) => Object.keys(body).length === 1, 'must name one method');
}

const reply = z.strictObject({ result: json.optional().describe('Absent where there is none') });
const errors = ['CORRUPT', 'UNSUPPORTED'] as const;

/** Routes of those who bring the rest along: the methods of the storage contract, as they are. */
export const STORAGE_ROUTES = {
  'POST /v1/storage/read': {
    summary:
      'Calls a method of the storage that reads: its name, with the list of its arguments (`src/storage/contract.ts`). Returns as many chunks as fit into a reply of about 16 MiB: ask for the rest',
    body: oneOf(reads),
    reply,
    isReading: true,
    errors,
  },
  'POST /v1/storage/change': {
    summary: 'Calls a method of the storage that writes. Checks digests, and reads headers from their bodies',
    body: oneOf(changes),
    reply,
    errors: ['CONFLICT', ...errors],
  },
} as const satisfies RouteTable;
