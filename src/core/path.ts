/** One step into a value: a key, an index, or a note such as `<element>`. */
export type PathStep = string | number;

/** What is said of a step that is no key: an element of a set, a key of a map, any element. Other keys may begin like it. */
const NOTE = /^<(?:element|key .*|from element \d+ on|\[\*\])>$/s;
const IDENTIFIER = /^[A-Za-z_$][\w$]*$/;

/** Formats steps the way people write them in code: `$.messages[3].at`, `$["odd key"]`. */
export function formatPath(steps: readonly PathStep[]): string {
  return steps.reduce<string>((text, step) => text + formatStep(step), '$');
}

/** What is shown of a long path, at its beginning and at its end. */
const SHOWN_CHARS = 60;

/** The same for a sentence: of a long path the middle is left out. */
export function formatShortPath(steps: readonly PathStep[]): string {
  const path = formatPath(steps);
  return path.length <= 3 * SHOWN_CHARS ? path : `${path.slice(0, SHOWN_CHARS)} … ${path.slice(-SHOWN_CHARS)}`;
}

function formatStep(step: PathStep): string {
  if (typeof step === 'number') return `[${step}]`;
  if (NOTE.test(step)) return step;
  return IDENTIFIER.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`;
}

/** Formats steps as a JSON Pointer (RFC 6901): `/messages/3/at`. */
export function formatPointer(steps: readonly PathStep[]): string {
  return steps.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
}

/** Reads a JSON Pointer; every step is a text. */
export function parsePointer(pointer: string): string[] {
  if (pointer === '') return [];
  return pointer
    .slice(1)
    .split('/')
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
}
