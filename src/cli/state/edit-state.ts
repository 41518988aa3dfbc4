import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StateCodec } from '../../core/codec/state-codec.ts';
import { InvalidInputError, messageOf } from '../../core/errors.ts';
import type { CheckpointId } from '../../core/record/id.ts';
import { formatSafeJson } from '../../core/safe-json.ts';
import type { JsonValue } from '../../core/value/json.ts';
import type { StateEdit } from '../../manager/branch/edit-state.ts';
import type { Context } from '../base/context.ts';

/** Lets a person change a state in their editor. It is shown in the form that can be read back: dates and the like are tagged. */
export async function editState(context: Context, id: CheckpointId): Promise<StateEdit> {
  const editor = context.env.VISUAL || context.env.EDITOR;
  if (!editor) throw new InvalidInputError('Say which editor to use: set EDITOR, or use --set or --patch.');
  const { manager } = await context.open();
  const codec = new StateCodec({ unknownClasses: 'keep' });
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
