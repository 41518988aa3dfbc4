import { InvalidInputError } from '../../core/errors.ts';
import { describeValue, isObject } from '../../core/options.ts';

/** What a function was given that changes a state or returns a new one. */
export type Given = {
  readonly state: unknown;
  readonly isChanged: () => boolean;
  readonly name: string;
};

/**
 * The new state that a function returned; undefined if it changed the one it was given. What it returned by the way is left out, as
 * `(chat) => chat.messages.push(message)` does; what could be either is refused.
 */
export function takeReturned(returned: unknown, { state, isChanged, name }: Given): unknown {
  if (returned instanceof Promise) {
    returned.catch(() => undefined); // it goes on with a state that is not its own any more
    throw new InvalidInputError(
      `${name} must not be async: what it awaits would hold up every other save. Await it first, or use step().`,
    );
  }
  if (!isObject(state)) return returned;
  if (!isObject(returned) || returned === state) return undefined;
  const isState = Array.isArray(returned) === Array.isArray(state);
  const hasChanged = isChanged();
  if (isState !== hasChanged) return isState ? returned : undefined;
  throw new InvalidInputError(
    `${name} must change the state, or return a whole new one; it ${hasChanged ? 'changed the state and ' : ''}returned ${describeValue(returned)}. Change what it is given, and put its body into braces so that it returns nothing.`,
  );
}
