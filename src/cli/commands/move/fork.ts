import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StateCodec } from '../../../core/codec/state-codec.ts';
import { withoutUndefined } from '../../../core/defined.ts';
import type { JsonPatchOperation } from '../../../core/diff/index.ts';
import { InvalidInputError, messageOf } from '../../../core/errors.ts';
import { formatPath } from '../../../core/path.ts';
import type { Checkpoint } from '../../../core/record/checkpoint.ts';
import type { CheckpointId } from '../../../core/record/id.ts';
import { formatSafeJson } from '../../../core/safe-json.ts';
import type { JsonValue } from '../../../core/value/json.ts';
import type { ForkedBranch, ForkOptions } from '../../../manager/branch/branching.ts';
import type { StateEdit } from '../../../manager/branch/edit-state.ts';
import { parseJsonOrText } from '../../../view/json-form.ts';
import { findAt, parseStatePath, setAt } from '../../../view/state-path.ts';
import type { Command, CommandInput, Context } from '../../base/command.ts';
import { quoteArgument } from '../../base/command-input.ts';
import { noteOperation } from '../../place/own-files.ts';
import { readText } from '../../place/read-text.ts';
import { resolveRevision } from '../../revision/resolve-revision.ts';
import { tellGraphMove } from '../../thread/thread-step.ts';

/** Begins a branch. */
export const command: Command = {
  arguments: '[revision]',
  options: [
    ['-b, --branch <name>', 'the name of the new branch; default: generated'],
    ['--edit', 'change the state in $EDITOR first'],
    ['--set <path=json>', 'set a value; text that is not JSON is a string', 'repeat'],
    ['--patch <file>', 'apply a JSON Patch (RFC 6902) from a file, or - for standard input'],
    ['--reason <text>', 'the reason, for later readers'],
    ['--switch', 'make it the current branch'],
  ],
  details:
    'The original is unchanged. With an edit the branch starts with a checkpoint of the changed state. New keys and changed types are reported.',
  examples: [
    ['savestate fork @~3 -b what-if', 'a branch three checkpoints back'],
    [`savestate fork @ --set 'tone="warm"' --reason 'try it warmer'`, 'with one value changed'],
    ['savestate fork v1 --edit', 'with an edit in your editor'],
    ['savestate fork @ --patch change.json -b fixed', 'with a JSON Patch'],
  ],
  run: async (context, input) => {
    const opened = await context.open();
    const origin = await resolveRevision(opened, input.word(0) ?? '@');
    const edit = await readEdit(context, input, origin);
    const isEdited = edit !== undefined;
    const head = await opened.manager.fork(origin.id, toForkOptions(context, input, edit));
    const { sessionId, branch, headId } = head;
    const before = await opened.manager.currentBranch(sessionId);
    const isSwitched = input.flag('switch');
    if (isSwitched) await opened.manager.switchBranch(sessionId, branch);
    await noteOperation(context, {
      sessionId,
      summary: `fork ${origin.id} as branch "${branch}"`,
      undo: [
        ...(isSwitched ? [{ step: 'switch', kind: 'branch', name: before } as const] : []),
        { step: 'delete', kind: 'branch', name: branch, target: headId },
      ],
    });
    await tellBranch(context, head, `began at #${origin.sequence} ${origin.id}${isEdited ? ' with an edit' : ''}`);
    tellGraphMove(context, origin, { isEdited });
    const next = isSwitched ? '' : `    Go on in it: ${context.command(`switch ${quoteArgument(branch)}`)}`;
    context.say(`See it with: ${context.command(`diff ${origin.id} ${quoteArgument(branch)}`)}${next}`);
  },
};

/** What is said about a fork or a rewind. */
export function toForkOptions(context: Context, input: CommandInput, edit?: StateEdit): ForkOptions {
  return withoutUndefined({
    branch: input.text('branch'),
    reason: input.text('reason'),
    author: context.author,
    edit,
  });
}

/** Prints a new branch. */
export async function tellBranch(context: Context, head: ForkedBranch, what: string): Promise<undefined> {
  const { sessionId, branch, headId, copies = [] } = head;
  const carried = copies.length === 0 ? '' : `Edited with it, the agents' own copies: ${copies.join(', ')}.\n`;
  await context.answer(
    { ...head, name: branch },
    () => `Branch "${branch}" of session "${sessionId}" ${what}; its head is ${headId}.\n${carried}`,
  );
}

async function readEdit(context: Context, input: CommandInput, { id }: Checkpoint): Promise<StateEdit | undefined> {
  const [sets, patch] = [input.texts('set'), input.text('patch')];
  const kinds = [input.flag('edit'), sets.length > 0, patch !== undefined].filter(Boolean).length;
  if (kinds > 1) throw new InvalidInputError('Use one of --edit, --set and --patch.');
  if (input.flag('edit')) return editState(context, id);
  if (patch !== undefined) return readPatch(patch);
  return sets.length === 0 ? undefined : (state) => sets.reduce((now, set) => applySet(context, now, set), state);
}

/** Says what may be a slip: a key that was not there, or a value of another kind. */
function applySet(context: Context, state: unknown, set: string): unknown {
  const at = set.indexOf('=');
  if (at < 1) throw new InvalidInputError(`--set needs path=json; found "${set}".`);
  const [path, value] = [parseStatePath(set.slice(0, at)), parseJsonOrText(set.slice(at + 1))];
  const [was, is] = [findAt(state, path), value].map(kindOf);
  const changed = setAt(state, path, value);
  if (was === 'undefined') context.say(`${formatPath(path)} is new: the state had no such key.`);
  else if (was !== is) context.say(`${formatPath(path)} was ${was}, and is ${is} now.`);
  return changed;
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  return Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}

function readPatch(file: string): readonly JsonPatchOperation[] {
  const text = readText(file, 'patch');
  try {
    const patch: unknown = JSON.parse(text);
    if (Array.isArray(patch)) return patch as JsonPatchOperation[];
  } catch (cause) {
    throw new InvalidInputError(`${file} is not JSON.`, { cause });
  }
  throw new InvalidInputError(`${file} is not a JSON Patch: it must be a list of operations.`);
}

/** Lets a person change a state in their editor. It is shown in the form that can be read back: dates and the like are tagged. */
export async function editState(context: Context, id: CheckpointId): Promise<StateEdit> {
  const editor = context.env.VISUAL || context.env.EDITOR;
  if (!editor) throw new InvalidInputError('Say which editor to use: set EDITOR, or use --set or --patch.');
  const { manager } = await context.open();
  const { plainCodec: codec } = manager.engine;
  const before = `${formatSafeJson(codec.encodeJson(await manager.load(id)), 2)}\n`;
  const folder = mkdtempSync(join(tmpdir(), 'savestate-edit-'));
  try {
    const file = join(folder, 'state.json');
    writeFileSync(file, before, { mode: 0o600 });
    await runEditor(editor, file);
    const after = readFileSync(file, 'utf8');
    if (after === before) throw new InvalidInputError('The state was not changed, so nothing was forked.');
    const state = decode(codec, after);
    return () => state;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function runEditor(editor: string, file: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' });
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve();
      else reject(new InvalidInputError(`The editor ended with ${code}, so nothing was forked.`));
    });
  });
}

function decode(codec: StateCodec, text: string): unknown {
  let json: JsonValue;
  try {
    json = JSON.parse(text) as JsonValue;
  } catch (cause) {
    throw new InvalidInputError(`What was written is not JSON: ${messageOf(cause)}.`, { cause });
  }
  return codec.decodeJson(json);
}
