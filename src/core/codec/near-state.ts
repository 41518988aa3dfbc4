import { setField } from '../defined.ts';
import type { Digest } from '../tree/chunk.ts';
import { Shadow, type ShadowChild } from '../tree/shadow.ts';
import { decodeAtom, decodeBytes } from '../value/atom.ts';
import type { ClassCodecs } from '../value/class-codec.ts';
import { createError } from '../value/error-value.ts';
import type { NodePlace, PartPlace, Parts } from './parts.ts';

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

  value({ digest, codecs }: PartPlace, _: unknown, decode: () => unknown): unknown {
    const part = this.#parts.get(digest);
    return part === undefined ? decode() : revive(part.shadow, codecs);
  }

  items({ digest, codecs }: NodePlace, _: unknown, decode: () => unknown[]): unknown[] {
    const part = this.#parts.get(digest);
    if (part === undefined) return decode();
    return part.shadow.children.slice(part.from, part.to).map((child) => revive(child, codecs));
  }
}

/** Makes a value from its shadow: the same as decoding what the shadow was encoded to. */
function revive(child: ShadowChild, codecs: ClassCodecs): unknown {
  if (!(child instanceof Shadow)) return child;
  const { kind, keys, children } = child;
  switch (kind) {
    case 'object':
      return reviveFields(child, {}, codecs);
    case 'bare':
      return reviveFields(child, Object.create(null), codecs);
    case 'Array':
      return children.map((item) => revive(item, codecs));
    case 'class':
      return codecs.decode(keys[0] as string, revive(children[0], codecs));
    case 'text':
      return child.source;
    default:
      return reviveRare(child, codecs);
  }
}

function reviveRare({ kind, keys, children }: Shadow, codecs: ClassCodecs): unknown {
  const [tag = ''] = keys;
  const values = (): unknown[] => children.map((item) => revive(item, codecs));
  switch (kind) {
    case 'Map': {
      const flat = values();
      return new Map(flat.flatMap((key, at) => (at % 2 === 0 ? [[key, flat[at + 1]]] : [])));
    }
    case 'Set':
      return new Set(values());
    case 'Error':
      return createError(tag, revive(children[0], codecs) as { [key: string]: unknown });
    case 'bytes':
      return decodeBytes(tag, children[0] as Uint8Array);
    default: {
      const [, ...args] = (JSON.parse(children[0] as string) as { $: unknown[] }).$;
      return decodeAtom(tag, args)?.value;
    }
  }
}

function reviveFields({ keys, children }: Shadow, target: object, codecs: ClassCodecs): object {
  for (let at = 0; at < keys.length; at++) setField(target, keys[at] as string, revive(children[at], codecs));
  return target;
}
