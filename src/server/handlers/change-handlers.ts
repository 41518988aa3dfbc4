import { withoutUndefined } from '../../core/defined.ts';
import { diffStates, type JsonPatchOperation, toPatch } from '../../core/diff/index.ts';
import { hasErrorCode, InvalidInputError, messageOf, toInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { ChunkContent, Digest } from '../../core/tree/chunk.ts';
import type { JsonValue } from '../../core/value/json.ts';
import type { ForkOptions } from '../../manager/branch/branching.ts';
import * as branching from '../../manager/branch/branching.ts';
import { editState, type StateEdit } from '../../manager/branch/edit-state.ts';
import { setNote } from '../../manager/branch/notes.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { readEffects } from '../../manager/effect/recordings.ts';
import type { Engine } from '../../manager/engine/engine.ts';
import { readState } from '../../manager/engine/loading.ts';
import { parseRefName } from '../../manager/revision/ref-name.ts';
import { toJsonForm } from '../../view/json-form.ts';
import { parseStatePath, setAt } from '../../view/state-path.ts';
import type { Call, Handlers } from './call.ts';
import { checkInside } from './session-refs.ts';

/** Answers what is asked to be changed. */
export const CHANGE_HANDLERS = {
  'POST /v1/checkpoints/{checkpoint}/fork': async ({ manager, engine, params, body }) => {
    const head = await branching.fork(engine, params.checkpoint, toForkOptions(manager, body));
    if (body.switch === true) await branching.switchBranch(engine, head.sessionId, head.branch);
    return head;
  },
  'POST /v1/checkpoints/{checkpoint}/fork/preview': preview,
  'POST /v1/sessions/{session}/rewind': async ({ manager, engine, params, body }) => {
    const { checkpoint, ...options } = body;
    const id = await checkInside(manager, params.session, checkpoint);
    return branching.rewind(engine, id, toForkOptions(manager, options));
  },
  'PUT /v1/sessions/{session}/current': ({ engine, params, body }) =>
    done(branching.switchBranch(engine, params.session, body.branch)),
  'DELETE /v1/sessions/{session}/branches/{branch}': ({ engine, params }) =>
    done(branching.deleteBranch(engine, params.session, params.branch)),
  'PUT /v1/sessions/{session}/tags/{tag}': async ({ manager, engine, params, body }) =>
    done(branching.tag(engine, await checkInside(manager, params.session, body.checkpoint), params.tag)),
  'DELETE /v1/sessions/{session}/tags/{tag}': ({ engine, params }) =>
    done(branching.untag(engine, params.session, params.tag)),
  'PUT /v1/checkpoints/{checkpoint}/pin': ({ engine, params }) => done(branching.pin(engine, params.checkpoint)),
  'DELETE /v1/checkpoints/{checkpoint}/pin': ({ engine, params }) => done(branching.unpin(engine, params.checkpoint)),
  'PUT /v1/checkpoints/{checkpoint}/note': ({ engine, params, body }) => done(setNote(engine, params.checkpoint, body)),
} satisfies Partial<Handlers>;

async function done(change: Promise<unknown>): Promise<{ readonly isDone: true }> {
  await change;
  return { isDone: true };
}

type Edit = Pick<Call<'POST /v1/checkpoints/{checkpoint}/fork'>['body'], 'patch' | 'set' | 'state'>;
type Fork = Edit & Pick<ForkOptions, 'branch' | 'author' | 'reason'>;

function toForkOptions(manager: CheckpointManager, { patch, set, state, branch, author, reason }: Fork): ForkOptions {
  const edit = toEdit(manager, { patch, set, state });
  return { branch, author, reason, ...(edit !== undefined && { edit }) };
}

function toEdit({ engine }: CheckpointManager, { patch, set, state }: Edit): StateEdit | undefined {
  const given = [patch, set, state].filter((each) => each !== undefined);
  if (given.length > 1) throw new InvalidInputError('Give one of patch, set and state.');
  if (patch !== undefined) return patch as readonly JsonPatchOperation[];
  if (set !== undefined)
    return (copy) =>
      Object.entries(set).reduce((edited, [path, value]) => setAt(edited, parseStatePath(path), value), copy);
  if (state === undefined) return undefined;
  const decoded = decodeGiven(engine, state as JsonValue);
  return () => decoded;
}

function decodeGiven({ plainCodec }: Engine, state: JsonValue): unknown {
  try {
    return plainCodec.decodeJson(state);
  } catch (error) {
    throw toInputError(error, 'The state that was sent cannot be read.');
  }
}

async function preview({ manager, params, body }: Call<'POST /v1/checkpoints/{checkpoint}/fork/preview'>) {
  const origin = await manager.open(params.checkpoint);
  const laterCalls = await countLaterCalls(manager, origin);
  const named = withoutUndefined({ branchProblem: findProblem(body.branch) });
  try {
    const edit = toEdit(manager, body);
    if (edit === undefined) return { isValid: true, patch: [], newBytes: 0, laterCalls, ...named };
    return { isValid: true, ...(await tryEdit(manager, origin, edit)), laterCalls, ...named };
  } catch (error) {
    if (!hasErrorCode(error, 'INVALID_INPUT') && !hasErrorCode(error, 'NOT_FOUND')) throw error;
    return { isValid: false, problem: messageOf(error), patch: [], newBytes: 0, laterCalls, ...named };
  }
}

/** Why no branch can have this name. */
function findProblem(branch: string | undefined): string | undefined {
  try {
    if (branch !== undefined) parseRefName(branch, 'The name of a branch');
    return undefined;
  } catch (error) {
    if (hasErrorCode(error, 'INVALID_INPUT')) return messageOf(error);
    throw error;
  }
}

/** Edits a copy and compares it; nothing is stored. What did not change is neither encoded nor compared. */
async function tryEdit({ engine }: CheckpointManager, { id }: Checkpoint, edit: StateEdit) {
  const { codec, repository } = engine;
  const origin = await repository.open(id);
  const { state: edited, before = codec.encode(await readState(engine, origin)) } = await editState(engine, origin, {
    edit,
  });
  const after = codec.encode(edited, before);
  const made = new Map<Digest, ChunkContent>([...before.chunks, ...after.chunks].map((chunk) => [chunk.digest, chunk]));
  const load = async (digests: readonly Digest[]) => {
    const stored = await repository.readChunks(digests.filter((digest) => !made.has(digest)));
    const found = new Map<Digest, ChunkContent>(stored.map((chunk) => [chunk.digest, chunk]));
    return digests.flatMap((digest) => made.get(digest) ?? found.get(digest) ?? []);
  };
  const diff = await diffStates({ before: before.root, after: after.root, load, codec });
  const added = after.root.digest === before.root.digest ? [] : [after.root, ...after.chunks];
  return {
    patch: toPatch(diff).map((operation) => toJsonForm(operation)),
    newBytes: added.reduce((sum, { text }) => sum + text.length, 0),
  };
}

/** What the branch called after a checkpoint, by name: whoever goes on from there may call it again. */
async function countLaterCalls(manager: CheckpointManager, { sessionId, branch, header }: Checkpoint) {
  const effects = await readEffects(manager.engine, { sessionId, branch, fromOrdinal: header.effectCount ?? 0 });
  const names = [...new Set(effects.map(({ name }) => name))];
  return names.map((name) => {
    const calls = effects.filter((effect) => effect.name === name);
    const firstId = calls[0]?.afterId;
    return { name, calls: calls.length, ...(firstId !== undefined && { firstId }) };
  });
}
