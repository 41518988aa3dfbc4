import { InvalidInputError, type SavestateError, UnsupportedError } from '../../core/errors.ts';
import { accepts, anything, describeValue, flag, isRecord, type OptionChecks, oneOf } from '../../core/options.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import { type CheckpointId, name } from '../../core/record/id.ts';
import type { EffectMode } from '../effect/step.ts';

/** A validator that follows the Standard Schema: those of zod, valibot, arktype and others do. */
export interface StateSchema<State> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => SchemaResult<State> | Promise<SchemaResult<State>>;
  };
}

type SchemaResult<State> =
  | { readonly value: State; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] };

type SchemaIssue = {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
};

/** At most this many problems of a state are named. */
const SHOWN_ISSUES = 3;

/** How a session is opened. */
export type SessionOptions<State = unknown> = {
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
  /** The state of a session that begins, and with `replayFrom: 'start'` of a program that runs again; it is copied. */
  readonly initial?: State | undefined;
  /** Checks a state that is loaded, and gives it its type. */
  readonly schema?: StateSchema<State> | undefined;
};

const schema = accepts(
  'a Standard Schema, such as one of zod, valibot or arktype',
  (value) => typeof (value as Partial<StateSchema<unknown>> | null)?.['~standard']?.validate === 'function',
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

/** A state as its schema returns it; throws an UnsupportedError that names the paths where it does not fit. */
export function checkState<State>(schema: StateSchema<State>, state: unknown, id: CheckpointId): Promise<State> {
  return validate(schema, state, (text, problems) => {
    const message = `The state of checkpoint ${id} does not fit the schema: ${text}. Add a migration from the version it was saved with, or let the schema accept it.`;
    return new UnsupportedError(message, { details: { checkpointId: id, problems } });
  });
}

/** A state that is given, as its schema returns it; throws an InvalidInputError that names the paths where it does not fit. */
export function checkGiven<State>(schema: StateSchema<State>, state: unknown, name: string): Promise<State> {
  return validate(schema, state, (text, problems) => {
    const message = `${name} does not fit the schema: ${text}. Nothing was saved. Change it, or let the schema accept it.`;
    return new InvalidInputError(message, { details: { problems } });
  });
}

async function validate<State>(
  schema: StateSchema<State>,
  state: unknown,
  refusal: (text: string, problems: readonly object[]) => SavestateError,
): Promise<State> {
  const result: unknown = await schema['~standard'].validate(state);
  if (!isResult<State>(result))
    throw new InvalidInputError(
      `The schema returned ${describeValue(result)}. A Standard Schema returns { value }, or { issues } with messages.`,
    );
  if (result.issues === undefined) return result.value;
  const problems = result.issues.map(({ message, path = [] }) => ({ path: formatPath(path.map(toStep)), message }));
  const shown = problems.slice(0, SHOWN_ISSUES).map(({ path, message }) => `${path}: ${message}`);
  const more = problems.length > SHOWN_ISSUES ? ` (and ${problems.length - SHOWN_ISSUES} more)` : '';
  throw refusal(`${shown.join('; ')}${more}`, problems);
}

/** A list may have issues, too: that of arktype does. */
function isResult<State>(result: unknown): result is SchemaResult<State> {
  if (typeof result !== 'object' || result === null) return false;
  const { issues } = result as { readonly issues?: unknown };
  return issues === undefined ? 'value' in result : Array.isArray(issues) && issues.every(isIssue);
}

function isIssue(issue: unknown): issue is SchemaIssue {
  if (!isRecord(issue) || typeof issue.message !== 'string') return false;
  return issue.path === undefined || (Array.isArray(issue.path) && !issue.path.includes(null));
}

function toStep(part: PropertyKey | { readonly key: PropertyKey }): PathStep {
  const key = typeof part === 'object' ? part.key : part;
  return typeof key === 'number' ? key : String(key);
}
