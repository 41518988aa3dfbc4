import { InvalidInputError, messageOf } from '../../core/errors.ts';
import type { MemoryRecord } from '../storage/memory-record.ts';

/**
 * Which memories are wanted: fields of metadata, or of the memory itself (`kind`, `subject`, `userId`, ...), each with a value, with `*`
 * for any value, or with a condition; all must fit. `AND`, `OR` and `NOT` hold lists of such filters.
 */
export type MemoryFilters = {
  readonly AND?: readonly MemoryFilters[];
  readonly OR?: readonly MemoryFilters[];
  readonly NOT?: readonly MemoryFilters[];
  readonly [field: string]: unknown;
};

/** Deeper filters would end the call stack. */
const MAX_DEPTH = 100;

const OWN_FIELDS = new Set('id kind subject slot trust userId agentId runId isPinned confidence'.split(' '));

/** A test for these filters; throws an InvalidInputError for an operator that does not exist. */
export function compileFilters(filters: MemoryFilters, depth = 0): RecordTest {
  if (depth > MAX_DEPTH)
    throw new InvalidInputError(
      `The filters are nested deeper than ${MAX_DEPTH} levels, or hold themselves. Flatten them.`,
    );
  const tests = Object.entries(filters).map(([field, wanted]) => compileField(field, wanted, depth));
  return (record) => tests.every((test) => test(record));
}

type RecordTest = (record: MemoryRecord) => boolean;

function compileField(field: string, wanted: unknown, depth: number): RecordTest {
  if (Object.hasOwn(COMBINATIONS, field)) return COMBINATIONS[field as Combination](parseList(field, wanted, depth));
  const test = compileCondition(wanted);
  return (record) => test(OWN_FIELDS.has(field) ? record[field as keyof MemoryRecord] : record.metadata[field]);
}

type Combination = 'AND' | 'OR' | 'NOT';

const COMBINATIONS: { readonly [Name in Combination]: (tests: readonly RecordTest[]) => RecordTest } = {
  AND: (tests) => (record) => tests.every((test) => test(record)),
  OR: (tests) => (record) => tests.some((test) => test(record)),
  NOT: (tests) => (record) => !tests.some((test) => test(record)),
};

function parseList(operator: string, wanted: unknown, depth: number): RecordTest[] {
  if (Array.isArray(wanted) && wanted.every((filter) => typeof filter === 'object' && filter !== null))
    return wanted.map((filter) => compileFilters(filter as MemoryFilters, depth + 1));
  throw new InvalidInputError(`${operator} must be a list of filters; found ${toJson(wanted)}.`);
}

type Test = (found: unknown) => boolean;

const OPERATORS: { readonly [operator: string]: (wanted: never) => Test } = {
  eq: (wanted: unknown) => (found) => isEqual(found, wanted),
  ne: (wanted: unknown) => (found) => !isEqual(found, wanted),
  gt: (wanted: unknown) => (found) => compare(found, wanted, (order) => order > 0),
  gte: (wanted: unknown) => (found) => compare(found, wanted, (order) => order >= 0),
  lt: (wanted: unknown) => (found) => compare(found, wanted, (order) => order < 0),
  lte: (wanted: unknown) => (found) => compare(found, wanted, (order) => order <= 0),
  in: (wanted: readonly unknown[]) => (found) => wanted.some((one) => isEqual(found, one)),
  nin: (wanted: readonly unknown[]) => (found) => !wanted.some((one) => isEqual(found, one)),
  contains: (wanted: string) => (found) => contains(found, wanted, (text) => text),
  icontains: (wanted: string) => (found) => contains(found, wanted, (text) => text.toLowerCase()),
};

function compileCondition(wanted: unknown): Test {
  toJson(wanted); // compared as such
  if (wanted === '*') return (found) => found !== undefined && found !== null;
  if (typeof wanted !== 'object' || wanted === null || Array.isArray(wanted)) return (found) => isEqual(found, wanted);
  const tests = Object.entries(wanted).map(([operator, operand]) => {
    const make = Object.hasOwn(OPERATORS, operator) ? OPERATORS[operator] : undefined;
    const isList = operator === 'in' || operator === 'nin';
    if (make === undefined || isList !== Array.isArray(operand))
      throw new InvalidInputError(
        `A filter has the condition ${toJson({ [operator]: operand })}; known are ${Object.keys(OPERATORS).join(', ')}, where in and nin take lists.`,
      );
    return make(operand as never);
  });
  return (found) => tests.every((test) => test(found));
}

/** Throws for what is no data, such as a value that holds itself. */
function toJson(wanted: unknown): string {
  try {
    return json(wanted);
  } catch (cause) {
    throw new InvalidInputError(`A filter holds a value that is not JSON: ${messageOf(cause).split('\n')[0]}.`, {
      cause,
    });
  }
}

function isEqual(found: unknown, wanted: unknown): boolean {
  return found === wanted || (typeof found === 'object' && json(found) === json(wanted));
}

function json(value: unknown): string {
  return JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? `${inner}n` : inner));
}

/** Only numbers with numbers and texts with texts have an order. */
function compare(found: unknown, wanted: unknown, accepts: (order: number) => boolean): boolean {
  if (typeof found !== typeof wanted || !(typeof found === 'number' || typeof found === 'string')) return false;
  return accepts(found === wanted ? 0 : (found as number | string) < (wanted as number | string) ? -1 : 1);
}

function contains(found: unknown, wanted: string, fold: (text: string) => string): boolean {
  if (Array.isArray(found)) return found.some((one) => typeof one === 'string' && fold(one) === fold(wanted));
  return typeof found === 'string' && fold(found).includes(fold(wanted));
}
