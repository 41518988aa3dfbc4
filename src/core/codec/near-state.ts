import { setField } from '../defined.ts';
import type { Digest } from '../tree/chunk.ts';
import { Shadow, type ShadowChild } from '../tree/shadow.ts';
import { decodeAtom, decodeBytes } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { buildValue } from './build-value.ts';
import type { Content, PartPlace, Parts } from './parts.ts';

/** A value that is a chunk of its own, or some elements of an array that are one. */
type Part = { readonly shadow: Shadow; readonly from: number; readonly to: number };

/**
 * What a shadow knows by digest: chunks that need be neither read nor parsed, because their content is in memory. Values are made
 * anew each time, so nothing that is handed out leads back here.
 */
export class NearState implements Parts {
  readonly #parts = new Map<Digest, Part>();

  constructor(root: Shadow) {
    this.#add(root);
  }

  #add(child: ShadowChild): void {
    if (!(child instanceof Shadow)) return;
    const { digest, children } = child;
    if (digest !== undefined) this.#parts.set(digest, { shadow: child, from: 0, to: children.length });
    if (child.kind === 'Array') this.#addNodes(child);
    if (child.kind !== 'class') for (const inner of children) this.#add(inner);
  }

  /** The nodes of each level follow each other from the first element on. */
  #addNodes(shadow: Shadow): void {
    for (const { nodes } of shadow.levels ?? []) {
      let from = 0;
      for (const { digest, items } of nodes) {
        this.#parts.set(digest, { shadow, from, to: from + items });
        from += items;
      }
    }
  }

  has(digest: Digest): boolean {
    return this.#parts.has(digest);
  }

  take<Decoded>({ digest, kind, codecs }: PartPlace, _: unknown, decode: () => Decoded): Decoded {
    const part = this.#parts.get(digest);
    if (part === undefined) return decode();
    const { shadow, from, to } = part;
    if (kind === 'value') return revive(shadow, codecs) as Decoded;
    const values = shadow.children.slice(from, to).map((child) => revive(child, codecs));
    return { kind, keys: [], values } satisfies Content as Decoded;
  }
}

/** Makes a value from its shadow: the same as decoding what the shadow was encoded to. */
function revive(child: ShadowChild, codecs: ClassCodecs): unknown {
  if (!(child instanceof Shadow)) return child;
  const { kind, keys, children, source } = child;
  switch (kind) {
    case 'object': {
      const target = {}; // nearly all are, so it is done at once
      for (let at = 0; at < keys.length; at++) setField(target, keys[at] as string, revive(children[at], codecs));
      return target;
    }
    case 'class':
      return codecs.decode(keys[0] as string, revive(children[0], codecs));
    case 'text':
      return source;
    case 'bytes':
      return decodeBytes(keys[0] as string, children[0] as Uint8Array);
    case 'atom': {
      const [tag, ...args] = (JSON.parse(children[0] as string) as { $: [string, ...unknown[]] }).$;
      return decodeAtom(tag, args)?.value;
    }
    default:
      return buildValue({ kind, keys, values: children.map((inner) => revive(inner, codecs)) }, codecs);
  }
}
