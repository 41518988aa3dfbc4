import { spawn } from 'node:child_process';
import { InvalidInputError } from '../../core/errors.ts';
import type { Checkpoint } from '../../core/record/checkpoint.ts';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Verdict } from '../place/bisect-file.ts';
import type { Expression } from './expression.ts';
import { toJsonForm } from './json-form.ts';

/** Says whether a checkpoint is good or bad. */
export type BisectTest = (checkpoint: Checkpoint) => Promise<Verdict>;

const SKIP = 125;
const ABORT = 127;

/** The name of the variable that holds the id of the checkpoint to look at. */
export const TARGET_VARIABLE = 'SAVESTATE_BISECT_TARGET';

/** Bad is where the expression is true. */
export function testByExpression(manager: CheckpointManager, expression: Expression): BisectTest {
  return async (checkpoint) => ((await expression.isTrue(manager, checkpoint)) ? 'bad' : 'good');
}

/** Runs a command with the state as JSON on its standard input. It exits as for jj: 0 good, 125 skip, 127 stop, else bad. */
export function testByCommand(
  manager: CheckpointManager,
  [program = '', ...args]: readonly string[],
  { env, signal }: { readonly env: NodeJS.ProcessEnv; readonly signal: AbortSignal },
): BisectTest {
  return async (checkpoint) => {
    const state = JSON.stringify(toJsonForm(await manager.load(checkpoint.id)) ?? null);
    return new Promise((resolve, reject) => {
      // What it prints is no part of our answer, so it goes where notes go.
      const child = spawn(program, args, {
        stdio: ['pipe', 2, 2],
        env: { ...env, [TARGET_VARIABLE]: checkpoint.id },
        signal,
      });
      child.stdin?.on('error', () => undefined); // it need not read the state
      child.once('error', (cause) => reject(cause.name === 'AbortError' ? cause : cannotRun(program, cause)));
      child.once('close', (code, killedBy) => {
        if (code === null || code === ABORT) reject(stopped(program, checkpoint, killedBy ?? ABORT));
        else resolve(code === 0 ? 'good' : code === SKIP ? 'skip' : 'bad');
      });
      child.stdin?.end(state);
    });
  };
}

function cannotRun(program: string, cause: unknown): InvalidInputError {
  return new InvalidInputError(`The command ${program} cannot be run.`, { cause });
}

function stopped(program: string, { id }: Checkpoint, why: string | number): InvalidInputError {
  return new InvalidInputError(`The command ${program} stopped the search at ${id} (${why}).`, { details: { id } });
}
