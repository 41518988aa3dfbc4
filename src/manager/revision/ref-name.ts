import { InvalidInputError } from '../../core/errors.ts';
import { isCheckpointIdPart, parseName } from '../../core/record/id.ts';
import type { RefChange } from '../../storage/contract.ts';

/** The last thing said about a revision: how far back, which number, when, or by what was said. */
export const SUFFIX =
  /^(.*?)(?:~(?<back>\d*)|(?<parent>\^)|#(?<number>\d+)|@?\{(?<time>[^}]*)\}|(?:^| )(?:message (?<message>\d+)|round (?<round>\d+)|before tool(?: (?<tool>\S+))?))$/s;

/** What turns the direction of a text around, or ends a line: a name with it looks like another. */
const UNSEEN = /[\p{Bidi_Control}\u2028\u2029]/u;

/** What a branch or tag of this name must not do, and does; undefined if it may have the name. */
export function findNameFault(name: string): string | undefined {
  if (name === '@' || SUFFIX.test(name) || (name.startsWith('chk_') && isCheckpointIdPart(name)))
    return 'read as a revision';
  if (name.includes('..')) return 'read as a range';
  return UNSEEN.test(name) ? 'turn the direction of a text around or end its line' : undefined;
}

/** Accepts the name of a new branch or tag, which must not read as another way to name a checkpoint. */
export function parseRefName(text: unknown, what: string): string {
  const name = parseName(text, what);
  const fault = findNameFault(name);
  if (fault === undefined) return name;
  throw new InvalidInputError(`${what} must not ${fault}, as ${JSON.stringify(name)} does. Choose another name.`, {
    details: { name },
  });
}

/** Checks that the name of a new branch is no tag's, or the reverse: one would hide the other. */
export function checkFree(kind: 'branch' | 'tag', name: string): RefChange {
  return { kind, name, expect: null, target: null };
}

/** Checks that a new branch takes neither what a deleted one of its name recorded for its own, nor the name of a tag. */
export function checkNewBranch(branch: string): RefChange[] {
  return [{ kind: 'log', name: branch, expect: null, target: null }, checkFree('tag', branch)];
}

const ANSWERS = 'answer/';

/** The branch that holds the answer to a request. */
export function answerBranch(branch: string, requestId: string): string {
  return `${ANSWERS}${branch}/${requestId}`;
}

/** Whether a branch only holds an answer: nothing goes on there. Its name has what the request is called. */
export const isAnswerBranch = (branch: string): boolean => branch.startsWith(ANSWERS);

/** Names of the branches that one may hold an answer for, most of which there is none of: both parts of its name may have slashes. */
export function* answeredBranches(name: string): Generator<string> {
  if (!isAnswerBranch(name)) return;
  for (let at = name.indexOf('/', ANSWERS.length); at >= 0; at = name.indexOf('/', at + 1))
    yield name.slice(ANSWERS.length, at);
}
