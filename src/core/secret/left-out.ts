import { formatPath, type PathStep } from '../path.ts';
import { SecretRef } from '../value/secret-ref.ts';

/** Told of the places where secrets were left out. The path is only good during the call. */
type LeftOutVisitor = {
  secret(path: readonly PathStep[], secret: SecretRef): void;
  /** A string with the marks that stand in it, such as `[secret jwt]`. Without this strings are not looked at. */
  text?(path: readonly PathStep[], marks: readonly string[]): void;
};

const MARK = /\[secret [^\]\n]{1,80}\]/g;

/** Visits every place of a value where a secret was left out when it was stored. */
export function visitLeftOut(value: unknown, visitor: LeftOutVisitor): void {
  visit(value, [], visitor);
}

/**
 * The first place of a value, such as `$.apiKey`, that holds a `SecretRef`, or a string with one of these marks in it; undefined
 * if there is none. A string may look like that by chance, so only marks that were found in what was restored count.
 */
export function findLeftOut(value: unknown, marks?: Pick<ReadonlySet<string>, 'has'>): string | undefined {
  let place: string | undefined;
  const secret = (path: readonly PathStep[]): void => {
    place ??= formatPath(path);
  };
  const text = (path: readonly PathStep[], found: readonly string[]): void => {
    if (found.some((mark) => marks?.has(mark))) secret(path);
  };
  visitLeftOut(value, marks === undefined ? { secret } : { secret, text });
  return place;
}

/** The marks that stand in the strings of a value, and what stands for its secrets elsewhere. */
export function marksIn(value: unknown): Set<string> {
  const marks = new Set<string>();
  visitLeftOut(value, {
    secret: (_, ref) => void marks.add(String(ref)),
    text: (_, found) => {
      for (const mark of found) marks.add(mark);
    },
  });
  return marks;
}

function visit(value: unknown, path: PathStep[], visitor: LeftOutVisitor): void {
  if (typeof value === 'string') {
    if (visitor.text !== undefined && value.includes('[secret ')) visitor.text(path, value.match(MARK) ?? []);
    return;
  }
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return;
  if (value instanceof SecretRef) {
    visitor.secret(path, value);
    return;
  }
  for (const [step, child] of childrenOf(value)) {
    path.push(step);
    visit(child, path, visitor);
    path.pop();
  }
}

function* childrenOf(value: object): Generator<[PathStep, unknown]> {
  if (Array.isArray(value)) for (let at = 0; at < value.length; at++) yield [at, value[at]];
  else if (value instanceof Map) for (const [key, child] of value) yield [`<key ${String(key)}>`, child];
  else if (value instanceof Set) for (const child of value) yield ['<element>', child];
  else yield* Object.entries(value);
}
