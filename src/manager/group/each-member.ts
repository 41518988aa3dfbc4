import { messageOf, SavestateError } from '../../core/errors.ts';

/** What went wrong with one member. */
export type MemberFailure = { readonly name: string; readonly error: unknown };

/**
 * Does the same for every member at the same time, beginning before this gives way. Waits for all of them; then throws one error
 * that names every member it failed for, after `what`.
 */
export async function forEachMember<Member extends { readonly name: string }, Result>(
  what: string,
  members: readonly Member[],
  work: (member: Member) => Promise<Result>,
): Promise<Result[]> {
  const results = await Promise.allSettled(members.map(work));
  const failures = members.flatMap(({ name }, at) => {
    const result = results[at];
    return result?.status === 'rejected' ? [{ name, error: result.reason as unknown }] : [];
  });
  if (failures.length > 0) throw memberError(what, failures);
  return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
}

/** One error for several members; its code is that of the first. */
export function memberError(what: string, failures: readonly MemberFailure[]): SavestateError {
  const told = failures.map(tellFailure);
  const cause = failures[0]?.error;
  const code = cause instanceof SavestateError ? cause.code : 'INVALID_INPUT';
  const members = failures.map(({ name }) => name);
  return new SavestateError(code, `${what} ${told.join(' ')}`, { details: { members }, cause });
}

/** Says in words what went wrong with a member. */
export function tellFailure({ name, error }: MemberFailure): string {
  return `"${name}": ${messageOf(error)}`;
}
