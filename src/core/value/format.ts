/**
 * The constants that decide where chunks begin and end. They are part of format version 1: changing one changes the digest
 * of every state, so they change only with the version. docs/FORMAT.md explains them; bench/ shows what they cost.
 */

/** An object or array with no refs inside is one piece of text up to here: a chat message is one chunk, not one per field. */
export const FOLD_CHARS = 8192;

/** In a container that is split, a value longer than this becomes a chunk of its own. Shorter strings are always inside. */
export const FIELD_CHARS = 256;

/** A value that holds refs (the spine of a long array) stays inside its parent up to here. */
export const SPINE_CHARS = 1024;
export const SPINE_REFS = 64;

/** An element of a tree longer than this becomes a chunk of its own. */
export const ITEM_CHARS = 64;

/** Arrays, maps and sets with fewer elements than this are treated like records. */
export const COLLECTION_MIN_ITEMS = 4;

/** Objects with fewer keys than this are records; larger ones are collections of pairs. */
export const OBJECT_MIN_ITEMS = 32;

/** A collection whose text is no longer than this is written flat. */
export const FLAT_CHARS = 512;

/** A tree node ends at the first marked element after this weight, or at the maximum. A ref weighs 256. */
export const NODE_MIN_WEIGHT = 1024;
export const NODE_MAX_WEIGHT = 4096;
export const REF_WEIGHT = 256;

/** Texts longer than this become trees of pieces; a piece ends where the last 32 characters say so, within these bounds. */
export const TEXT_TREE_CHARS = 16_384;
export const PIECE_MIN_CHARS = 2048;
export const PIECE_MAX_CHARS = 16_384;
export const PIECE_MASK = 0xffe00000;

/** Byte arrays longer than this become trees of pieces of this size. */
export const BYTES_PIECE_BYTES = 12_288;

/** Limits on what may be saved and read; generous for agents, and far below what would crash the process. */
export type ValueLimits = { readonly maxDepth: number; readonly maxNodes: number; readonly maxBytes: number };

export const DEFAULT_LIMITS: ValueLimits = { maxDepth: 500, maxNodes: 5_000_000, maxBytes: 512 * 1024 * 1024 };
