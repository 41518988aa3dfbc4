import { InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { formatPath, type PathStep } from '../../core/path.ts';
import type { CheckpointId } from '../../core/record/id.ts';

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

/** A state as its schema returns it; throws an UnsupportedError that names the paths where it does not fit. */
export async function checkState<State>(schema: StateSchema<State>, state: unknown, id: CheckpointId): Promise<State> {
  const result = await schema['~standard'].validate(state);
  if (result.issues === undefined) return result.value;
  const { problems, text } = describeIssues(result.issues);
  throw new UnsupportedError(
    `The state of checkpoint ${id} does not fit the schema: ${text}. Add a migration from the version it was saved with, or let the schema accept it.`,
    { details: { checkpointId: id, problems } },
  );
}

/** A state that is given, as its schema returns it; throws an InvalidInputError that names the paths where it does not fit. */
export async function checkGiven<State>(schema: StateSchema<State>, state: unknown, name: string): Promise<State> {
  const result = await schema['~standard'].validate(state);
  if (result.issues === undefined) return result.value;
  const { problems, text } = describeIssues(result.issues);
  throw new InvalidInputError(
    `${name} does not fit the schema: ${text}. Nothing was saved. Change it, or let the schema accept it.`,
    { details: { problems } },
  );
}

function describeIssues(issues: readonly SchemaIssue[]) {
  const problems = issues.map(({ message, path = [] }) => ({ path: formatPath(path.map(toStep)), message }));
  const shown = problems.slice(0, SHOWN_ISSUES).map(({ path, message }) => `${path}: ${message}`);
  const more = problems.length > SHOWN_ISSUES ? ` (and ${problems.length - SHOWN_ISSUES} more)` : '';
  return { problems, text: `${shown.join('; ')}${more}` };
}

function toStep(part: PropertyKey | { readonly key: PropertyKey }): PathStep {
  const key = typeof part === 'object' ? part.key : part;
  return typeof key === 'number' ? key : String(key);
}
