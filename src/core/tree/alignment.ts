import { Shadow, type ShadowChild } from './shadow.ts';

type Ends = { readonly prefix: number; readonly suffix: number };

/** A stretch of elements that a list still has, at another place. */
type Run = { readonly oldEnd: number; readonly newEnd: number; readonly length: number };

/** Shorter runs are not worth a step of their own. */
const MIN_RUN = 16;

/**
 * Notes how a changed collection came from an older one, so that the tree of the older one can be built on. A list that changed at
 * two places at once (the front trimmed, the end appended to) is taken as two changes in a row, each at one place.
 */
export function noteChange(shadow: Shadow, from: Shadow, ends: Ends): Shadow {
  if (from.levels === undefined) return shadow;
  const run = findRun(shadow, from, ends);
  if (run === undefined) {
    shadow.change = { from, prefix: ends.prefix, suffix: ends.suffix };
    return shadow;
  }
  const children = shadow.children.slice(0, run.newEnd).concat(from.children.slice(run.oldEnd));
  const between = new Shadow(shadow.kind, undefined, { children });
  between.change = {
    from,
    prefix: ends.prefix,
    suffix: from.children.length - run.oldEnd + run.length,
  };
  shadow.change = { from: between, prefix: run.newEnd, suffix: ends.suffix };
  return shadow;
}

/** The first long run that both middles share. Only containers are looked at: they are the same shadow where nothing changed. */
function findRun(shadow: Shadow, from: Shadow, { prefix, suffix }: Ends): Run | undefined {
  const oldEnd = from.children.length - suffix;
  const newEnd = shadow.children.length - suffix;
  if (shadow.kind !== 'Array' || Math.min(oldEnd, newEnd) - prefix < MIN_RUN) return undefined;
  const places = new Map<ShadowChild, number>();
  for (let at = oldEnd - 1; at >= prefix; at--)
    if (from.children[at] instanceof Shadow) places.set(from.children[at], at);
  for (let at = prefix; at < newEnd; at++) {
    const place = places.get(shadow.children[at]);
    if (place === undefined) continue;
    const length = countRun(shadow.children, from.children, {
      at,
      place,
      limit: Math.min(newEnd - at, oldEnd - place),
    });
    if (length >= MIN_RUN) return { oldEnd: place + length, newEnd: at + length, length };
    at += length - 1;
  }
  return undefined;
}

function countRun(
  now: readonly ShadowChild[],
  old: readonly ShadowChild[],
  { at, place, limit }: { at: number; place: number; limit: number },
): number {
  let length = 0;
  while (length < limit && now[at + length] instanceof Shadow && now[at + length] === old[place + length]) length++;
  return length;
}
