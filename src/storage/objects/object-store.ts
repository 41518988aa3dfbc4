/** An object that is stored, and when that was, in milliseconds since 1970. */
export type StoredObject = { readonly name: string; readonly bytes: number; readonly modifiedMs: number };

/** Where large values live. Names are of the letters a to f, digits and hyphens, and each is put once. Failures are `STORAGE`. */
export interface ObjectStore {
  /** Resolves when the object is durable. */
  put(name: string, bytes: Uint8Array): Promise<void>;
  /** The bytes from `from` up to `to`, which is exclusive; undefined if there is no such object, or it is shorter. */
  get(name: string, range: { readonly from: number; readonly to: number }): Promise<Uint8Array | undefined>;
  /** Puts other bytes in place of an object, all at once. Without it, what was deleted stays in an object while any of it is in use. */
  replace?(name: string, bytes: Uint8Array): Promise<void>;
  /** Also if it is not there. */
  delete(name: string): Promise<void>;
  list(): AsyncIterable<StoredObject>;
}
