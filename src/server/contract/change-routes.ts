import { z } from 'zod';
import { count, json } from '../../view/shapes.ts';
import type { RouteTable } from './route.ts';
import { checkpointId, name, sessionId } from './shapes.ts';

const author = z.string().max(512).optional();
const reason = z.string().max(10_000).optional();
const text = z.string().min(1).max(300);
const done = z.strictObject({ isDone: z.literal(true) });

/** The ways to change a state on the way into a new branch; one of them, or none. */
const edit = {
  patch: z.array(json).max(10_000).optional().describe('A JSON Patch (RFC 6902)'),
  set: z.record(z.string(), json).optional().describe('Values by path, such as {"$.plan.tone": "warm"}'),
  state: json.optional().describe('The whole new state, in the tagged form of GET .../value?form=tagged'),
};

const fork = z.strictObject({
  branch: name.optional().describe('Default: a name is chosen'),
  ...edit,
  author,
  reason,
  switch: z.boolean().optional().describe('Make it the current branch'),
});

/** Each value of an edit is checked, encoded, compared and may be returned as an operation of a patch. */
const MAX_EDITED = 100_000;

const head = z.strictObject({
  sessionId: z.string(),
  branch: z.string(),
  headId: z.string(),
  copies: z.array(z.string()).optional().describe("The agents' own copies that were edited with their message"),
});

/** Routes that move: history is only ever added to. */
export const CHANGE_ROUTES = {
  'POST /v1/access': {
    summary: 'Exchanges the token for a cookie that is sent only to this server',
    body: z.strictObject({ token: z.string().max(1_000) }),
    reply: done,
    isReading: true,
    errors: [],
  },
  'POST /v1/checkpoints/{checkpoint}/fork': {
    summary: 'Starts a branch at a checkpoint, with or without an edit. The original is unchanged',
    params: { checkpoint: checkpointId },
    body: fork,
    maxValues: MAX_EDITED,
    reply: head,
    errors: ['NOT_FOUND', 'CONFLICT', 'CORRUPT'],
  },
  'POST /v1/checkpoints/{checkpoint}/fork/preview': {
    summary: 'What a fork with this edit would change, and which recorded calls come after it; writes nothing',
    params: { checkpoint: checkpointId },
    body: fork,
    maxValues: MAX_EDITED,
    reply: z.strictObject({
      isValid: z.boolean(),
      problem: z.string().optional().describe('Why the edit cannot be applied'),
      branchProblem: z.string().optional().describe('Why no branch can have that name'),
      patch: z.array(json),
      newBytes: count.describe('About how much would be stored'),
      laterCalls: z
        .array(z.strictObject({ name: z.string(), calls: count, firstId: z.string().optional() }))
        .describe('Calls that the branch recorded after this checkpoint: they would be made again'),
    }),
    isReading: true,
  },
  'POST /v1/sessions/{session}/rewind': {
    summary: 'Goes back to an ancestor of the head: creates a branch there and makes it current',
    params: { session: sessionId },
    body: fork.omit({ switch: true }).extend({ checkpoint: checkpointId }),
    maxValues: MAX_EDITED,
    reply: head,
    errors: ['NOT_FOUND', 'CONFLICT', 'CORRUPT'],
  },
  'PUT /v1/sessions/{session}/current': {
    summary: 'Makes another branch the current one',
    params: { session: sessionId },
    body: z.strictObject({ branch: name }),
    reply: done,
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  'DELETE /v1/sessions/{session}/branches/{branch}': {
    summary: 'Removes a branch. Its checkpoints stay until retention drops them',
    params: { session: sessionId, branch: name },
    reply: done,
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  'PUT /v1/sessions/{session}/tags/{tag}': {
    summary: 'Names a checkpoint; a tag does not move, and protects what it names',
    params: { session: sessionId, tag: name },
    body: z.strictObject({ checkpoint: checkpointId }),
    reply: done,
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  'DELETE /v1/sessions/{session}/tags/{tag}': {
    summary: 'Removes a tag',
    params: { session: sessionId, tag: name },
    reply: done,
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  'PUT /v1/checkpoints/{checkpoint}/pin': {
    summary: 'Protects a checkpoint from retention',
    params: { checkpoint: checkpointId },
    reply: done,
    errors: ['NOT_FOUND'],
  },
  'DELETE /v1/checkpoints/{checkpoint}/pin': {
    summary: 'Removes that protection',
    params: { checkpoint: checkpointId },
    reply: done,
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
  'PUT /v1/checkpoints/{checkpoint}/note': {
    summary: 'Sets the note of a checkpoint, replacing the previous one; an empty note removes it',
    params: { checkpoint: checkpointId },
    body: z.strictObject({ text: text.or(z.literal('')), author: z.string().max(100).optional() }),
    reply: done,
    errors: ['NOT_FOUND', 'CONFLICT'],
  },
} as const satisfies RouteTable;
