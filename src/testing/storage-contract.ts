import type { ChunkStorage } from '../storage/contract.ts';
import { chunkRules } from './contract/chunks.ts';
import { collectingRules } from './contract/collecting.ts';
import { commitRules } from './contract/commits.ts';
import { type ContractTest, createContext } from './contract/contract-test.ts';
import { deletingRules } from './contract/deleting.ts';
import { differentialRules } from './contract/differential.ts';
import { lifetimeRules } from './contract/lifetime.ts';
import { listingRules } from './contract/listing.ts';
import { effectRules, refRules } from './contract/refs-and-effects.ts';

type TestBody = () => Promise<void>;

/** The two functions of a test runner that the suite needs; vitest's, jest's and node:test's fit. */
export type ContractRunner = {
  readonly describe: (title: string, body: () => void) => unknown;
  readonly test: ((title: string, body: TestBody) => unknown) & {
    readonly skip: (title: string, body: TestBody) => unknown;
  };
};

/** A fresh storage, and what removes its data when the test is over. */
export type OpenedStorage = ChunkStorage | { readonly storage: ChunkStorage; readonly dispose: () => Promise<void> };

/** How the suite gets at the storage to prove. */
export type StorageContractOptions = ContractRunner & {
  /** Opens a fresh, empty storage. The suite closes it. */
  readonly open: () => Promise<OpenedStorage>;
  /** Closes a storage and opens the same data again; absent if nothing survives closing. */
  readonly reopen?: (storage: ChunkStorage) => Promise<ChunkStorage>;
  /** Rules of docs/SPEC.md that the storage cannot keep, or single tests by their titles, each with the reason: `{ 'storage.16': 'append-only' }`. */
  readonly skip?: { readonly [ruleOrTitle: string]: string };
};

const TESTS: readonly ContractTest[] = [
  ...commitRules,
  ...chunkRules,
  ...listingRules,
  ...differentialRules,
  ...refRules,
  ...effectRules,
  ...deletingRules,
  ...collectingRules,
  ...lifetimeRules,
];

/**
 * Proves that a storage keeps the byte-level contract: registers one test for each rule and case of "Storage contract" in
 * docs/SPEC.md, each on a storage of its own. What is skipped is shown as skipped, with the reason.
 */
export function storageContract(name: string, options: StorageContractOptions): void {
  checkSkips(options.skip ?? {});
  options.describe(`${name} keeps the storage contract`, () => {
    for (const item of TESTS) register(item, options);
  });
}

function register(item: ContractTest, options: StorageContractOptions): void {
  const reason = skipReason(item, options);
  if (reason === undefined) options.test(item.title, () => runOn(item, options));
  else options.test.skip(`${item.title} (skipped: ${reason})`, () => runOn(item, options));
}

function skipReason(item: ContractTest, { skip = {}, reopen }: StorageContractOptions): string | undefined {
  for (const key of [ruleIdOf(item), item.title]) if (Object.hasOwn(skip, key)) return skip[key];
  return item.needsReopen && reopen === undefined ? 'this storage cannot be opened again' : undefined;
}

async function runOn(item: ContractTest, { open, reopen }: StorageContractOptions): Promise<void> {
  const opened = await open();
  const { storage, dispose } = 'storage' in opened ? opened : { storage: opened, dispose: async () => undefined };
  const inUse = [storage];
  try {
    const again = async (current: ChunkStorage) => {
      if (reopen === undefined) throw new TypeError(`"${item.title}" needs reopen.`);
      inUse.push(await reopen(current));
      return inUse.at(-1) as ChunkStorage;
    };
    await item.run(createContext(storage, again));
  } finally {
    for (const each of inUse) await each.close();
    await dispose();
  }
}

/** A skip of a rule that does not exist would hide a spelling mistake for ever. */
function checkSkips(skip: { readonly [ruleOrTitle: string]: string }): void {
  const known = new Set(TESTS.flatMap((item) => [ruleIdOf(item), item.title]));
  const unknown = Object.keys(skip).filter((id) => !known.has(id));
  if (unknown.length > 0) throw new RangeError(`There is no storage rule ${unknown.join(', ')}; see docs/SPEC.md.`);
}

const ruleIdOf = ({ title }: ContractTest): string => title.slice(1, title.indexOf(']'));
