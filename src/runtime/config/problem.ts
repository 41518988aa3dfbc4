import { InvalidInputError } from '../../core/errors.ts';

/** One thing that is wrong with a document. */
export type Problem = {
  /** Where in the data: `steps[0].agent`. */
  readonly path: string;
  readonly message: string;
  /** What was probably meant. */
  readonly suggestion?: string;
  /** Counted from 1; absent where the data did not come from a text. */
  readonly line?: number;
  readonly column?: number;
};

/** The keys that lead to a part of a document. */
export type KeyPath = readonly (string | number)[];

/** `steps[0].agent`, as people write it. */
export function formatPath(path: KeyPath): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? key : `${text}.${key}`;
  }, '');
}

/** One error for all problems of a document; they are in `details.problems`, first line first. */
export function problemsError(what: string, problems: readonly Problem[]): InvalidInputError {
  const sorted = problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));
  const lines = sorted.map((problem) => `  ${formatProblem(problem)}`);
  const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
  return new InvalidInputError(`${what} has ${count}:\n${lines.join('\n')}`, { details: { problems: sorted } });
}

/** A problem in one line, after its place. */
export function formatProblem({ path, message, line, column }: Problem): string {
  const place = line === undefined ? '' : `${line}:${column} `;
  return `${place}${path === '' ? '' : `${path}: `}${message}`;
}
