/** A reply for a model: JSON, and whether something of it was left out. */
export type Bounded = { readonly text: string; readonly isCut: boolean };

/** Brackets, quotes and commas around a value. */
const FRAME_BYTES = 8;
const CUT = ' [cut]';

/** Writes a reply as JSON of at most about so many bytes: long texts are cut, and what does not fit any more is left out. */
export function bound(reply: unknown, maxBytes: number): Bounded {
  const text = JSON.stringify(reply) ?? 'null';
  if (Buffer.byteLength(text) <= maxBytes) return { text, isCut: false };
  return { text: JSON.stringify(prune(reply, maxBytes)), isCut: true };
}

function prune(value: unknown, room: number): unknown {
  if (sizeOf(value) <= room) return value;
  if (typeof value === 'string') return cutText(value, room);
  if (Array.isArray(value)) return pruneList(value, room);
  if (typeof value === 'object' && value !== null) return pruneFields(value, room);
  return value;
}

/** The first items that fit; of the first one a part. */
function pruneList(items: readonly unknown[], room: number): unknown[] {
  const kept: unknown[] = [];
  let left = room;
  for (const item of items) {
    const part = kept.length === 0 ? prune(item, left - FRAME_BYTES) : item;
    left -= sizeOf(part) + 1;
    if (left < 0) break;
    kept.push(part);
  }
  return kept;
}

/** The small fields first, so that cursors and counts stay; what is left is shared by the large ones. */
function pruneFields(value: object, room: number): Record<string, unknown> {
  const sized = Object.entries(value).map(([name, field]) => ({ name, field: field as unknown, bytes: sizeOf(field) }));
  const bySize = sized.sort((a, b) => a.bytes - b.bytes);
  const kept: Record<string, unknown> = {};
  let left = room - FRAME_BYTES;
  for (const [index, { name, field }] of bySize.entries()) {
    const share = left / (bySize.length - index) - sizeOf(name) - FRAME_BYTES;
    if (share < FRAME_BYTES + CUT.length) break;
    kept[name] = prune(field, share);
    left -= sizeOf(name) + sizeOf(kept[name]) + 2;
  }
  return kept;
}

/** Cuts a text to so many bytes of JSON, between characters. */
export function cutText(text: string, room: number): string {
  let kept = text.slice(0, Math.max(0, Math.floor(room)));
  while (kept !== '' && sizeOf(kept) > room - CUT.length) kept = kept.slice(0, Math.floor(kept.length * 0.9));
  return `${kept.toWellFormed()}${CUT}`;
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? 'null');
}
