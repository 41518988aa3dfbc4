import { type Chunk, type ChunkContent, createChunk, type Digest } from '../tree/chunk.ts';
import { Shadow, type ShadowChild, type TreeLevel, type TreeLevels, type TreeNode } from '../tree/shadow.ts';
import { type CutBefore, cutBytes, cutText, type Pieces } from '../tree/text-pieces.ts';
import { cutTree, NO_TREE, type TreeBefore } from '../tree/tree.ts';
import { encodeAtom, encodeBytes, encodeSpecial } from '../value/atom.ts';
import {
  BYTES_PIECE_BYTES,
  FIELD_CHARS,
  FLAT_CHARS,
  FOLD_CHARS,
  ITEM_CHARS,
  SPINE_CHARS,
  SPINE_REFS,
  TEXT_TREE_CHARS,
} from '../value/format.ts';
import { REF_TEXT, writeTree } from '../value/grammar.ts';
import {
  flatParts,
  type Item,
  isRecord,
  itemCount,
  PAIR,
  type Part,
  pairParts,
  recordParts,
  refItem,
  textItem,
  treeBefore,
  wrap,
} from './compose-parts.ts';

/** Replaces a text that must not be stored. */
export type Redact = {
  /** Returns the JSON text to write instead, or undefined to write it as it is. */
  (text: string, key: string | undefined, onSecret?: (secret: string) => void): string | undefined;
  /** Whether a text is surely written as it is because one that it was made from is; looks only at what changed. */
  isLike?(text: string, before: string, key: string | undefined): boolean;
};

/** By whom the text of a shadow was found to be written as it is. */
const WHOLE = new WeakMap<Shadow, Redact>();

/** The elements of a tree, and the tree before. */
type TreeItems = {
  readonly tag: string;
  readonly length: number;
  readonly before: TreeBefore;
  at(index: number): Item;
};

const NO_REFS: readonly Digest[] = [];

/** Texts up to this length are kept with their shadow, because their parents are written again and again. Longer ones only until then. */
const KEPT_TEXT_CHARS = 1024;

/**
 * Turns shadows into chunks. Only what has no digest yet is written, and what a chunk holds depends on the value alone,
 * so equal states have equal digests, whatever edits led to them. `chunks` collects what is new.
 */
export class Composer {
  readonly chunks = new Map<Digest, Chunk>();
  readonly #redact: Redact | undefined;

  constructor(redact?: Redact) {
    this.#redact = redact;
  }

  /** The chunk of a whole state. Its own fields are always split off when long: it is what every save writes again. */
  composeRoot(state: ShadowChild): ChunkContent {
    if (!(state instanceof Shadow)) return { text: this.#primitive(state, undefined), refs: NO_REFS };
    const canSplit = isRecord(state) && state.kind !== 'atom' && state.kind !== 'bytes' && state.kind !== 'text';
    return canSplit
      ? this.#composeParts(state, recordParts(state), { canFold: false })
      : this.#compose(state, undefined);
  }

  /** The text of a whole value with nothing split off. */
  composeFlat(value: ShadowChild, key?: string): string {
    if (!(value instanceof Shadow)) return this.#primitive(value, key);
    if (value.kind === 'text') return this.#redact?.(value.source as string, key) ?? JSON.stringify(value.source);
    if (value.kind === 'bytes') return encodeAtom(value.keys[0] as string, value.children[0] as Uint8Array);
    if (value.kind === 'atom') return value.children[0] as string;
    return wrap(
      value,
      recordParts(value)
        .map(({ lead, key: name, child }) => lead + this.composeFlat(child, name))
        .join(''),
    );
  }

  /** Fills in the text and refs of a shadow, if they are not there. */
  #compose(shadow: Shadow, key: string | undefined): ChunkContent {
    if (shadow.text !== undefined) return shadow as ChunkContent;
    const content = this.#composeByKind(shadow, key);
    shadow.refs = content.refs;
    shadow.textChars = content.text.length;
    shadow.text = content.text;
    shadow.change = undefined;
    return content;
  }

  #composeByKind(shadow: Shadow, key: string | undefined): ChunkContent {
    switch (shadow.kind) {
      case 'atom':
        return { text: shadow.children[0] as string, refs: NO_REFS };
      case 'bytes':
        return this.#composeBytes(shadow);
      case 'text':
        return this.#composeText(shadow, key);
      case 'Error':
      case 'class':
        return this.#composeParts(shadow, recordParts(shadow), { canFold: true });
      default:
        return isRecord(shadow)
          ? this.#composeParts(shadow, recordParts(shadow), { canFold: true })
          : this.#composeCollection(shadow);
    }
  }

  #primitive(value: unknown, key: string | undefined): string {
    if (typeof value === 'string') return this.#redact?.(value, key) ?? JSON.stringify(value);
    if (value === null || typeof value === 'boolean') return String(value);
    if (typeof value === 'number' && Number.isFinite(value) && !Object.is(value, -0)) return String(value);
    return encodeSpecial(value as number | bigint | undefined);
  }

  /** A record: one text if it is small and holds no refs, otherwise split. */
  #composeParts(shadow: Shadow, parts: readonly Part[], { canFold }: { canFold: boolean }): ChunkContent {
    const isFolded = canFold && this.#fits(parts, FOLD_CHARS);
    const refs: Digest[] = [];
    let text = '';
    for (const { lead, key, child } of parts) {
      const content = isFolded ? this.#inline(child, key) : this.#embed(child, key);
      text += lead + content.text;
      if (content.refs.length > 0) refs.push(...content.refs);
    }
    return { text: wrap(shadow, text), refs };
  }

  /** Whether all children together are small and free of refs. */
  #fits(parts: readonly Part[], limitChars: number): boolean {
    let chars = 0;
    for (const { lead, key, child } of parts) {
      chars += lead.length + this.#measure(child, key);
      if (chars > limitChars || (child instanceof Shadow && child.refs.length > 0)) return false;
    }
    return true;
  }

  #measure(child: ShadowChild, key: string | undefined): number {
    if (!(child instanceof Shadow))
      return typeof child === 'string' ? child.length + 2 : this.#primitive(child, key).length;
    if (child.textChars < 0) this.#compose(child, key);
    return child.textChars;
  }

  /** Takes a child in, whole. */
  #inline(child: ShadowChild, key: string | undefined): ChunkContent {
    if (!(child instanceof Shadow)) return { text: this.#primitive(child, key), refs: NO_REFS };
    child.digest = undefined;
    const { text, refs } = this.#compose(child, key);
    if (text.length > KEPT_TEXT_CHARS) child.text = undefined;
    return { text, refs };
  }

  /** Takes a child in if it is short, otherwise makes it a chunk. */
  #embed(child: ShadowChild, key: string | undefined): ChunkContent {
    if (!(child instanceof Shadow)) return this.#inline(child, key);
    const isSpine =
      this.#measure(child, key) <= SPINE_CHARS && child.refs.length > 0 && child.refs.length <= SPINE_REFS;
    if (isSpine || child.textChars <= FIELD_CHARS) return this.#inline(child, key);
    return this.#externalise(child, key);
  }

  #externalise(shadow: Shadow, key: string | undefined): ChunkContent {
    shadow.digest ??= this.#add(this.#compose(shadow, key));
    shadow.text = undefined;
    // The data of an instance is written with it alone.
    const data = shadow.kind === 'class' ? shadow.children[0] : undefined;
    if (data instanceof Shadow) data.text = undefined;
    return { text: REF_TEXT, refs: [shadow.digest] };
  }

  #add(content: ChunkContent): Digest {
    const chunk = createChunk(content);
    this.chunks.set(chunk.digest, chunk);
    return chunk.digest;
  }

  #composeCollection(shadow: Shadow): ChunkContent {
    const parts = flatParts(shadow);
    if (parts !== undefined && this.#fits(parts, FLAT_CHARS)) {
      shadow.levels = undefined;
      return this.#composeParts(shadow, parts, { canFold: true });
    }
    return this.#composeTree(shadow, this.#treeItems(shadow));
  }

  #treeItems(shadow: Shadow): TreeItems {
    const between = shadow.change?.from;
    // A list that changed at two places: the tree between the two changes is cut first.
    if (between?.change !== undefined && between.levels === undefined)
      between.levels = this.#cut(this.#treeItems(between));
    return {
      tag: shadow.kind,
      length: itemCount(shadow),
      before: treeBefore(shadow),
      at: (index) => this.#item(shadow, index),
    };
  }

  #cut(items: TreeItems): TreeLevels {
    return cutTree(items, items.before, {
      writeLeaf: (leaf) => {
        const refs: Digest[] = [];
        for (const item of leaf) for (const ref of item.refs) refs.push(ref);
        return this.#writeNode(leaf.map((item) => item.text).join(','), refs, leaf);
      },
      writeInner: (nodes) =>
        this.#writeNode(
          nodes.map((node) => node.items).join(','),
          nodes.map((node) => node.digest),
          nodes,
        ),
    });
  }

  #composeTree(shadow: Shadow, items: TreeItems): ChunkContent {
    const levels = this.#cut(items);
    shadow.levels = levels;
    const refs: Digest[] = [];
    const rows: string[] = [];
    for (let height = levels.length; height > 0; height--) {
      const { nodes } = levels[height - 1] as TreeLevel;
      const counts: number[] = [];
      for (let at = levels[height]?.entries ?? 0; at < nodes.length; at++) {
        const { items: count, digest } = nodes[at] as TreeNode;
        counts.push(count);
        refs.push(digest);
      }
      rows.push(counts.join(','));
    }
    const open: string[] = [];
    for (let at = levels[0]?.entries ?? 0; at < items.length; at++) {
      const item = items.at(at);
      open.push(item.text);
      for (const ref of item.refs) refs.push(ref);
    }
    rows.push(open.join(','));
    return { text: writeTree(items.tag, items.length, rows), refs };
  }

  #writeNode(text: string, refs: readonly Digest[], entries: readonly { readonly items: number }[]): TreeNode {
    const digest = this.#add({ text: `[${text}]`, refs });
    return { digest, entries: entries.length, items: entries.reduce((sum, entry) => sum + entry.items, 0) };
  }

  #item(shadow: Shadow, index: number): Item {
    if (shadow.kind === 'Array' || shadow.kind === 'Set') return this.#valueItem(shadow.children[index]);
    return this.#pairItem(shadow, index);
  }

  #valueItem(child: ShadowChild): Item {
    if (!(child instanceof Shadow)) return textItem(this.#primitive(child, undefined));
    const isShort = this.#measure(child, undefined) <= ITEM_CHARS && child.refs.length === 0;
    if (isShort) return textItem(this.#inline(child, undefined).text);
    const { refs } = this.#externalise(child, undefined);
    return refItem(refs as [Digest]);
  }

  #pairItem(shadow: Shadow, index: number): Item {
    const pair = pairParts(shadow, index);
    const content = this.#composeParts(PAIR, pair, { canFold: true });
    if (content.text.length <= ITEM_CHARS && content.refs.length === 0) return textItem(content.text);
    return refItem([this.#add(content)]);
  }

  #composeText(shadow: Shadow, key: string | undefined): ChunkContent {
    const text = shadow.source as string;
    const redacted = this.#redactLong(shadow, key);
    if (text.length <= TEXT_TREE_CHARS || redacted !== undefined)
      return { text: redacted ?? JSON.stringify(text), refs: NO_REFS };
    return this.#composePieces(shadow, { tag: 'text', cut: cutText, pieceOf: (from, to) => text.slice(from, to) });
  }

  #redactLong(shadow: Shadow, key: string | undefined): string | undefined {
    const redact = this.#redact;
    if (redact === undefined) return undefined;
    const [text, before] = [shadow.source as string, shadow.change?.from];
    const isLike =
      before !== undefined && WHOLE.get(before) === redact && redact.isLike?.(text, before.source as string, key);
    const redacted = isLike === true ? undefined : redact(text, key);
    if (redacted === undefined) WHOLE.set(shadow, redact);
    return redacted;
  }

  #composeBytes(shadow: Shadow): ChunkContent {
    const bytes = shadow.children[0] as Uint8Array;
    const tag = shadow.keys[0] as string;
    if (bytes.length <= BYTES_PIECE_BYTES) return { text: encodeAtom(tag, bytes), refs: NO_REFS };
    return this.#composePieces(shadow, {
      tag,
      cut: cutBytes,
      pieceOf: (from, to) => encodeBytes(bytes.subarray(from, to)),
    });
  }

  #composePieces<Whole>(shadow: Shadow, { tag, cut, pieceOf }: Cutting<Whole>): ChunkContent {
    const wholeOf = ({ kind, source, children }: Shadow) => (kind === 'text' ? source : children[0]) as Whole;
    const from = shadow.change?.from ?? shadow;
    const levels = from.levels ?? [];
    const known = from.items as readonly number[] | undefined;
    const { ends, prefix, suffix } = cut(wholeOf(shadow), known && { whole: wholeOf(from), ends: known });
    shadow.items = ends;
    const before = known === undefined ? NO_TREE : { levels, length: known.length, prefix, suffix };
    const at = (index: number) => {
      const piece = pieceOf(ends[index - 1] ?? 0, ends[index] as number);
      return refItem([this.#add({ text: JSON.stringify(piece), refs: NO_REFS })]);
    };
    return this.#composeTree(shadow, { tag, length: ends.length, before, at });
  }
}

/** How a long text, or bytes, are cut, and what a piece of them is written as. */
type Cutting<Whole> = {
  readonly tag: string;
  cut(whole: Whole, before?: CutBefore<Whole>): Pieces;
  pieceOf(from: number, to: number): string;
};
