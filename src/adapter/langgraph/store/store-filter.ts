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

/** Whether a value passes a filter: every field equals what is asked, or passes all the operators given for it. */
export function matchesFilter(value: Fields, filter: Fields): boolean {
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
