/** A number and its noun: `1 checkpoint`, `1,204 checkpoints`. */
export function formatCount(count: number, noun: string): string {
  const plural = pluralOf(noun);
  return `${count.toLocaleString('en')} ${count === 1 ? noun : plural}`;
}

function pluralOf(noun: string): string {
  if (noun.endsWith('ch')) return `${noun}es`;
  return /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`;
}
