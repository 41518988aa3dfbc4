import { evaluate, type Lookup } from '../../../core/expression/evaluate.ts';
import { EVERY, type Expression, type Path, pathsOf } from '../../../core/expression/parse-expression.ts';
import { formatPath } from '../../../core/path.ts';
import { findLeftOut, marksIn, visitLeftOut } from '../../../core/secret/left-out.ts';
import { SecretRef } from '../../../core/value/secret-ref.ts';
import { hasMarks } from '../../../manager/effect/input-digest.ts';
import { type Failed, failed, type Outcome, type RunState } from './run-state.ts';

const ERROR_NAME = 'SecretLeftOutError';

/** Finds where a step of a resumed run would act with what stands for a secret: secrets are not stored. */
export class LeftOutSecrets {
  readonly #state: RunState;
  #known: ReadonlySet<string> | undefined;

  constructor(state: RunState) {
    this.#state = state;
  }

  /** The failure of a step that looks at a secret which was left out, or gets one in its input; undefined if there is none. */
  refuse(looksAt: readonly Expression[], lookup: Lookup, input?: unknown): Failed | undefined {
    const marks = { has: (mark: string) => this.#marks.has(mark) };
    const looked = looksAt.flatMap(pathsOf).flatMap((path) => secretOn(path, lookup) ?? []);
    const inInput = looked.length > 0 ? undefined : findLeftOut(input, marks);
    const place = inInput === undefined ? looked[0] : `${inInput} of its input`;
    if (place === undefined) return undefined;
    return failed(
      ERROR_NAME,
      `The secret at ${place} is not stored, so the step cannot run with it after a resume. If it came with the workflow's input, run it again with the same input. If a step returned it, read it inside the step that needs it, for example from the environment, and return no secrets.`,
    );
  }

  /**
   * What may stand in a string in place of a secret. Collected from what was restored, so that a string which only looks like a mark
   * is let through in a run that was not resumed.
   */
  get #marks(): ReadonlySet<string> {
    if (this.#known !== undefined) return this.#known;
    const { input, inputDigest = '', ends } = this.#state;
    const marks = marksIn([ends.map(({ output }) => output), hasMarks(inputDigest) ? input : undefined]);
    visitLeftOut(input, { secret: (_, ref) => void marks.add(String(ref)) });
    this.#known = marks;
    return marks;
  }
}

/** Whether a step did not run for want of a secret. Such a failure is not the step's, and `on_error` does not go over it. */
export function isSecretLeftOut(outcome: Outcome): boolean {
  return outcome.status === 'failed' && outcome.error.name === ERROR_NAME;
}

/** Where a path comes upon a secret that was left out. */
function secretOn([root, ...keys]: Path, lookup: Lookup): string | undefined {
  for (let length = 0; length <= keys.length; length++) {
    const part: Path = [root, ...keys.slice(0, length)];
    const value = evaluate({ kind: 'path', keys: part }, lookup);
    const values = part.includes(EVERY) && Array.isArray(value) ? value : [value];
    if (!values.some((one) => one instanceof SecretRef)) continue;
    return formatPath(part.map((key) => (key === EVERY ? '<every item>' : key))).slice('$.'.length);
  }
  return undefined;
}
