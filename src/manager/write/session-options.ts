import { accepts, anything, flag, isRecord, type OptionChecks, oneOf } from '../../core/options.ts';
import { name } from '../../core/record/id.ts';
import type { EffectMode } from '../effect/effect-log.ts';
import type { StateSchema } from './state-schema.ts';

/** How the branch of a session is written. */
export type WriterOptions = {
  /** Default: the branch a rewind made current, else `main`. A branch that does not exist yet begins with the first save. */
  readonly branch?: string | undefined;
  /** When someone else moved the branch: `error` (default) throws a ConflictError, `branch` goes on in a branch of its own. */
  readonly onConflict?: 'error' | 'branch' | undefined;
  /** How `step` uses recordings; default `live`. */
  readonly mode?: EffectMode | undefined;
  /** Which recordings `step` uses: those after the head (default), or all since the session began: then the state begins at `initial` again, too. */
  readonly replayFrom?: 'head' | 'start' | undefined;
  /** The branch whose recordings `step` uses besides its own; default, in a replay mode: those that it came from, however it was made. */
  readonly replayBranch?: string | undefined;
  /** Freeze what was saved: later saves cost what changed, and a mutation in place throws where it happens. */
  readonly freeze?: boolean | undefined;
};

/** How a session is opened. */
export type SessionOptions<State = unknown> = WriterOptions & {
  /** The state of a session that begins, and with `replayFrom: 'start'` of a program that runs again; it is copied. */
  readonly initial?: State | undefined;
  /** Checks a state that is loaded, and gives it its type. */
  readonly schema?: StateSchema<State> | undefined;
};

const schema = accepts(
  'a Standard Schema, such as one of zod, valibot or arktype',
  (value) => (isRecord(value) || typeof value === 'function') && '~standard' in value,
);

/** What the options of a session accept. */
export const SESSION_CHECKS: OptionChecks<SessionOptions> = {
  branch: name,
  onConflict: oneOf('error', 'branch'),
  mode: oneOf('live', 'recorded', 'frozen'),
  replayFrom: oneOf('head', 'start'),
  replayBranch: name,
  freeze: flag,
  initial: anything,
  schema,
};
