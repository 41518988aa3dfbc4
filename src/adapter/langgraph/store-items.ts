import type {
  GetOperation,
  Item,
  ListNamespacesOperation,
  MatchCondition,
  Operation,
  PutOperation,
  SearchOperation,
} from '@langchain/langgraph-checkpoint';
import { InvalidInputError, UnsupportedError } from '../../core/errors.ts';
import { matchesFilter } from './store-filter.ts';

/** The items of a store by namespace, then by key, both in the order in which they came. */
export type StoreItems = ReadonlyMap<string, ReadonlyMap<string, Item>>;

/** What an operation asks for. */
export type StoreOperation =
  | { readonly kind: 'get'; readonly operation: GetOperation }
  | { readonly kind: 'put'; readonly operation: PutOperation }
  | { readonly kind: 'search'; readonly operation: SearchOperation }
  | { readonly kind: 'list'; readonly operation: ListNamespacesOperation };

const DEFAULT_SEARCH_LIMIT = 10;

/** Tells operations apart by their fields, as LangGraph does, and refuses those that need vectors. */
export function parseOperation(operation: Operation): StoreOperation {
  if ('namespacePrefix' in operation) {
    if (operation.query !== undefined && operation.query !== '') throw noVectors('search by a query');
    return { kind: 'search', operation };
  }
  if (!('namespace' in operation)) return { kind: 'list', operation };
  if (!('value' in operation)) return { kind: 'get', operation };
  checkNamespace(operation.namespace);
  if (Array.isArray(operation.index)) throw noVectors('index fields');
  return { kind: 'put', operation };
}

function noVectors(what: string): UnsupportedError {
  return new UnsupportedError(
    `This store cannot ${what}: it has no vectors. Search with a filter, or use a store with an index for this data.`,
  );
}

function checkNamespace(namespace: readonly unknown[]): void {
  const isSound = namespace.length > 0 && namespace.every((label) => typeof label === 'string' && label !== '');
  if (isSound) return;
  throw new InvalidInputError(
    `A namespace must be a list of texts that are not empty; found ${JSON.stringify(namespace)}.`,
    {
      details: { field: 'namespace' },
    },
  );
}

export function getItem(items: StoreItems, { namespace, key }: GetOperation): Item | undefined {
  return items.get(namespaceKey(namespace))?.get(key);
}

/** Items below a namespace that pass the filter, namespace by namespace. */
export function searchItems(items: StoreItems, operation: SearchOperation): Item[] {
  const { namespacePrefix, filter = {}, limit = DEFAULT_SEARCH_LIMIT, offset = 0 } = operation;
  const found: Item[] = [];
  for (const [key, group] of items) {
    if (!startsWith(parseNamespace(key), namespacePrefix)) continue;
    for (const item of group.values()) if (matchesFilter(item.value, filter)) found.push(item);
  }
  return found.slice(offset, offset + limit);
}

/** The namespaces that hold items, in order of their labels, cut to a depth if asked. */
export function listNamespaces(items: StoreItems, operation: ListNamespacesOperation): string[][] {
  const { matchConditions = [], maxDepth, limit, offset = 0 } = operation;
  const matching = [...items.keys()]
    .map(parseNamespace)
    .filter((namespace) => matchConditions.every((condition) => matches(namespace, condition)));
  const cut = new Set(matching.map((namespace) => namespaceKey(namespace.slice(0, maxDepth))));
  const sorted = [...cut].map(parseNamespace).sort((a, b) => a.join(':').localeCompare(b.join(':')));
  return sorted.slice(offset, limit === undefined ? undefined : offset + limit);
}

/** The items after some puts and deletions. What did not change is shared. */
export function applyPuts(items: StoreItems, puts: readonly PutOperation[], now: Date): StoreItems {
  const next = new Map(items);
  for (const { namespace, key, value } of puts) {
    const name = namespaceKey(namespace);
    const group = new Map(next.get(name));
    const createdAt = group.get(key)?.createdAt ?? now;
    if (value === null) group.delete(key);
    else group.set(key, { namespace: [...namespace], key, value, createdAt, updatedAt: now });
    if (group.size === 0) next.delete(name);
    else next.set(name, group);
  }
  return next;
}

function matches(namespace: readonly string[], { matchType, path }: MatchCondition): boolean {
  if (matchType === 'prefix') return startsWith(namespace, path);
  if (matchType === 'suffix') return startsWith(namespace.toReversed(), path.toReversed());
  throw new InvalidInputError(`A match type must be "prefix" or "suffix"; found ${JSON.stringify(matchType)}.`);
}

function startsWith(namespace: readonly string[], path: readonly string[]): boolean {
  return path.length <= namespace.length && path.every((label, at) => label === '*' || label === namespace[at]);
}

function namespaceKey(namespace: readonly string[]): string {
  return JSON.stringify(namespace);
}

function parseNamespace(key: string): string[] {
  return JSON.parse(key) as string[];
}
