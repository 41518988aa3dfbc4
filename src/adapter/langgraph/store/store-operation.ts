import type {
  GetOperation,
  ListNamespacesOperation,
  Operation,
  PutOperation,
  SearchOperation,
} from '@langchain/langgraph-checkpoint';
import { InvalidInputError } from '../../../core/errors.ts';

/** What an operation asks for. */
export type StoreOperation =
  | { readonly kind: 'get'; readonly operation: GetOperation }
  | { readonly kind: 'put'; readonly operation: PutOperation }
  | { readonly kind: 'search'; readonly operation: SearchOperation }
  | { readonly kind: 'list'; readonly operation: ListNamespacesOperation };

/** Tells operations apart by their fields, as LangGraph does, and refuses what no item can have. */
export function parseOperation(operation: Operation): StoreOperation {
  if ('namespacePrefix' in operation) return { kind: 'search', operation };
  if (!('namespace' in operation)) return { kind: 'list', operation };
  checkKey(operation.key);
  if (!('value' in operation)) return { kind: 'get', operation };
  checkNamespace(operation.namespace);
  checkIndex(operation.index);
  return { kind: 'put', operation };
}

function checkKey(key: unknown): void {
  if (typeof key === 'string') return;
  throw new InvalidInputError(`The key of an item must be a text; found ${JSON.stringify(key)}.`, {
    details: { field: 'key' },
  });
}

function checkNamespace(namespace: readonly unknown[]): void {
  const isSound = namespace.length > 0 && namespace.every((label) => typeof label === 'string' && label !== '');
  if (isSound) return;
  throw new InvalidInputError(
    `A namespace must be a list of texts that are not empty; found ${JSON.stringify(namespace)}.`,
    { details: { field: 'namespace' } },
  );
}

function checkIndex(index: unknown): void {
  const isSound = Array.isArray(index) && index.every((path) => typeof path === 'string');
  if (isSound || index === undefined || index === null || index === false) return;
  throw new InvalidInputError(`index must be false or a list of paths; found ${JSON.stringify(index)}.`, {
    details: { field: 'index' },
  });
}
