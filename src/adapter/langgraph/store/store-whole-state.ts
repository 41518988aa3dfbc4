import type { Item } from '@langchain/langgraph-checkpoint';
import { InvalidInputError } from '../../../core/errors.ts';
import type { StoredItem, StoreItems } from './store-items.ts';
import type { StorePut } from './store-tree.ts';

type Fields = { readonly [key: string]: unknown };

/** Where something came in the order of coming. */
type Placed = { readonly at: number };

/**
 * The items of a store's state that is there as a whole, in their order: of the first form, a Map of Maps, and of the present one
 * if something other than a store saved it, because that lays it out in other chunks.
 */
export function putsOfState(state: unknown, store: StoreItems): StorePut[] {
  const { items, form, namespaces } = (typeof state === 'object' && state !== null ? state : {}) as Fields;
  if (items instanceof Map)
    return [...(items as Map<string, Map<string, Item>>).values()].flatMap((group) => putsOfGroup(group, store));
  if (form !== undefined) return putsOfNamespaces(namespaces, store);
  throw new InvalidInputError(
    'The session of this store holds a state that no store saved. Give the store another name, or delete the session.',
    { details: { field: 'name' } },
  );
}

function putsOfGroup(group: ReadonlyMap<string, Item>, store: StoreItems): StorePut[] {
  return [...group.values()].map(({ namespace, key, value, createdAt, updatedAt }) => ({
    namespace,
    key: String(key),
    value: store.encode(value),
    times: { createdAt: createdAt.getTime(), updatedAt: updatedAt.getTime() },
  }));
}

function putsOfNamespaces(namespaces: unknown, store: StoreItems): StorePut[] {
  const groups = entriesOf<Placed & { readonly items: unknown }>(namespaces);
  return groups.flatMap(([name, { items }]) =>
    entriesOf<Placed & { readonly item: StoredItem }>(items).map(([key, { item }]) => ({
      namespace: JSON.parse(name) as string[],
      key,
      value: store.encode(item.value),
      index: item.index,
      times: { createdAt: item.createdAt, updatedAt: item.updatedAt },
    })),
  );
}

/** The entries of a trie, in the order in which they came: a Map is a leaf, an object a branch. */
function entriesOf<Entry extends Placed>(node: unknown): [string, Entry][] {
  const leaves: [string, Entry][] = [];
  const collect = (one: unknown): void => {
    if (one instanceof Map) leaves.push(...(one as Map<string, Entry>));
    else for (const child of Object.values((one ?? {}) as Fields)) collect(child);
  };
  collect(node);
  return leaves.sort(([, a], [, b]) => a.at - b.at);
}
