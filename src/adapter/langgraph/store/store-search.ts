import type {
  Item,
  ListNamespacesOperation,
  MatchCondition,
  SearchItem,
  SearchOperation,
} from '@langchain/langgraph-checkpoint';
import { InvalidInputError } from '../../../core/errors.ts';
import type { StoredItem, StoreItems } from './store-items.ts';
import { rankByWords, wordsOfItem } from './store-ranking.ts';
import type { StoreEntry, StoreNamespace, StoreRoot, StoreTree } from './store-tree.ts';

/** How LangGraph's stores compare a field with a condition. */
const OPERATORS: { readonly [name: string]: (found: unknown, wanted: unknown) => boolean } = {
  $eq: (found, wanted) => found === wanted,
  $ne: (found, wanted) => found !== wanted,
  $gt: (found, wanted) => Number(found) > Number(wanted),
  $gte: (found, wanted) => Number(found) >= Number(wanted),
  $lt: (found, wanted) => Number(found) < Number(wanted),
  $lte: (found, wanted) => Number(found) <= Number(wanted),
  $in: (found, wanted) => Array.isArray(wanted) && wanted.includes(found),
  $nin: (found, wanted) => !Array.isArray(wanted) || !wanted.includes(found),
};

type Fields = { readonly [key: string]: unknown };

/** An item that was found, and how well it answers the query. */
type Found = { readonly entry: StoreEntry; readonly score?: number };

const DEFAULT_LIMIT = 10;

/** How many namespaces are looked through at once: few reads for many small ones, and an end when enough is found. */
const NAMESPACES_PER_READ = 200;

/** Looks items up. */
export class StoreSearch {
  readonly #tree: StoreTree;
  readonly #items: StoreItems;
  readonly #words = new WeakMap<StoredItem, ReadonlySet<string>>();

  constructor(tree: StoreTree, items: StoreItems) {
    this.#tree = tree;
    this.#items = items;
  }

  async get(root: StoreRoot, namespace: readonly string[], key: string): Promise<Item | null> {
    const entry = await this.#tree.find(root, namespace, key);
    return entry === undefined ? null : ((await this.#toItems([entry]))[0] ?? null);
  }

  /** Those of the namespaces that are asked for, in order of their labels, cut to a depth if asked. */
  async listNamespaces(root: StoreRoot, operation: ListNamespacesOperation): Promise<string[][]> {
    const { matchConditions = [], maxDepth, limit, offset = 0 } = operation;
    const all = await this.#tree.namespaces(root);
    const matching = all.filter(({ path }) => matchConditions.every((condition) => matches(path, condition)));
    const cut = new Set(matching.map(({ path }) => JSON.stringify(path.slice(0, maxDepth))));
    const sorted = [...cut].map((name) => JSON.parse(name) as string[]).sort(byLabels);
    return sorted.slice(offset, limit === undefined ? undefined : offset + limit);
  }

  /** Items below a namespace that pass the filter: in the order in which they came, or those first that answer a query best. */
  async search(root: StoreRoot, operation: SearchOperation): Promise<SearchItem[]> {
    const { namespacePrefix, limit = DEFAULT_LIMIT, offset = 0 } = operation;
    const [filter, query] = [operation.filter ?? {}, operation.query ?? ''];
    const all = await this.#tree.namespaces(root);
    const groups = all.filter(({ path }) => startsWith(path, namespacePrefix));
    const end = offset + limit;
    const found = query === '' ? await this.#firstOf(groups, filter, end) : await this.#rank(groups, filter, query);
    const page = found.slice(offset, end);
    const items = await this.#toItems(page.map(({ entry }) => entry));
    return items.map((item, at) => ({ ...item, score: page[at]?.score }) as SearchItem);
  }

  async #firstOf(groups: readonly StoreNamespace[], filter: Fields, count: number): Promise<Found[]> {
    const found: Found[] = [];
    const needed = Object.keys(filter).length === 0 ? groupsWith(groups, count) : groups;
    for (let at = 0; at < needed.length && found.length < count; at += NAMESPACES_PER_READ) {
      const entries = await this.#passing(needed.slice(at, at + NAMESPACES_PER_READ), filter);
      for (const entry of entries) found.push({ entry });
    }
    return found;
  }

  async #rank(groups: readonly StoreNamespace[], filter: Fields, query: string): Promise<Found[]> {
    const entries = await this.#passing(groups, filter);
    const words = (await this.#items.look(entries)).map((item) => this.#wordsOf(item));
    const ranked = rankByWords(words, query).map(({ at, score }) => ({ entry: entries[at] as StoreEntry, score }));
    const isRanked = new Set(ranked.map(({ entry }) => entry));
    return [...ranked, ...entries.flatMap((entry) => (isRanked.has(entry) ? [] : [{ entry }]))];
  }

  async #passing(groups: readonly StoreNamespace[], filter: Fields): Promise<StoreEntry[]> {
    const entries = await this.#tree.items(groups);
    if (Object.keys(filter).length === 0) return entries;
    const items = await this.#items.look(entries);
    return entries.filter((_, at) => matchesFilter(items[at]?.value as Fields, filter));
  }

  /** Items are kept while they are used, and what was made of them with them. */
  #wordsOf(item: StoredItem): ReadonlySet<string> {
    const words = this.#words.get(item) ?? wordsOfItem(item);
    this.#words.set(item, words);
    return words;
  }

  async #toItems(entries: readonly StoreEntry[]): Promise<Item[]> {
    const items = await this.#items.read(entries);
    return items.map(({ value, createdAt, updatedAt }, at) => ({
      value: value as Item['value'],
      key: entries[at]?.key ?? '',
      namespace: [...(entries[at]?.namespace ?? [])],
      createdAt: new Date(createdAt),
      updatedAt: new Date(updatedAt),
    }));
  }
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
function startsWith(namespace: readonly string[], path: readonly string[]): boolean {
  return path.length <= namespace.length && path.every((label, at) => label === '*' || label === namespace[at]);
}

/** The first namespaces, as many as hold this many items. */
function groupsWith(groups: readonly StoreNamespace[], count: number): readonly StoreNamespace[] {
  let held = 0;
  const last = groups.findIndex(({ size }) => {
    held += size;
    return held >= count;
  });
  return last < 0 ? groups : groups.slice(0, last + 1);
}

/** Whether a value passes a filter: every field equals what is asked, or passes all the operators given for it. */
function matchesFilter(value: Fields, filter: Fields): boolean {
  return Object.entries(filter).every(([key, wanted]) => {
    const found = Object.hasOwn(value, key) ? value[key] : undefined;
    return isCondition(wanted)
      ? Object.entries(wanted).every(([name, operand]) => OPERATORS[name]?.(found, operand))
      : found === wanted;
  });
}

function isCondition(wanted: unknown): wanted is Fields {
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return false;
  return Object.keys(wanted).every((key) => Object.hasOwn(OPERATORS, key));
}
