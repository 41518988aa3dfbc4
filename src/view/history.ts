/** Goes through the checkpoints of a long look, so that whoever asked can show how far it is, or stop it. */
export type Watch = <Item>(
  items: Iterable<Item> | AsyncIterable<Item>,
  total: number | undefined,
) => Iterable<Item> | AsyncIterable<Item>;

/** All items of a list that comes bit by bit. */
export async function collect<Item>(items: Iterable<Item> | AsyncIterable<Item>): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) found.push(item);
  return found;
}
