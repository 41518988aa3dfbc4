import type { ListNamespacesOperation, MatchCondition } from '@langchain/langgraph-checkpoint';
import { InvalidInputError } from '../../../core/errors.ts';

/** Those of some namespaces that are asked for, in order of their labels, cut to a depth if asked. */
export function selectNamespaces(
  namespaces: readonly (readonly string[])[],
  operation: ListNamespacesOperation,
): string[][] {
  const { matchConditions = [], maxDepth, limit, offset = 0 } = operation;
  const matching = namespaces.filter((path) => matchConditions.every((condition) => matches(path, condition)));
  const cut = new Set(matching.map((path) => JSON.stringify(path.slice(0, maxDepth))));
  const sorted = [...cut].map((name) => JSON.parse(name) as string[]).sort(byLabels);
  return sorted.slice(offset, limit === undefined ? undefined : offset + limit);
}

function byLabels(a: readonly string[], b: readonly string[]): number {
  return a.join(':').localeCompare(b.join(':'));
}

function matches(namespace: readonly string[], { matchType, path }: MatchCondition): boolean {
  if (matchType === 'prefix') return startsWith(namespace, path);
  if (matchType === 'suffix') return startsWith(namespace.toReversed(), path.toReversed());
  throw new InvalidInputError(`A match type must be "prefix" or "suffix"; found ${JSON.stringify(matchType)}.`);
}

/** Whether a namespace begins with these labels; `*` stands for any. */
export function startsWith(namespace: readonly string[], path: readonly string[]): boolean {
  return path.length <= namespace.length && path.every((label, at) => label === '*' || label === namespace[at]);
}
