import { Buffer } from 'node:buffer';
import {
  type Cipher,
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  type Decipher,
  type KeyObject,
  randomFillSync,
} from 'node:crypto';
import { type Digest, splitDigests } from '../../core/tree/chunk.ts';
import { deriveKey } from './keyring.ts';
import { Recent } from './recent.ts';

const ALGORITHM = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const NONCE_CHARS = 16;
const HEAD_CHARS = NONCE_CHARS + 24;
const MAX_HIDDEN = 10_000;
/** Far fewer than are remembered, so that none is forgotten before it is returned. */
const MAX_AT_ONCE = 1_000;

/** AES-256-GCM under one key. What is sealed opens only with the same `place`, so that it cannot be moved. */
export class Sealer {
  readonly #key: KeyObject;
  readonly #nonces = Buffer.alloc(NONCE_BYTES * 256);
  #used = this.#nonces.length;

  constructor(secret: string, purpose: string) {
    this.#key = createSecretKey(deriveKey(secret, purpose));
  }

  /** The nonce, the tag and the ciphertext, in this order. A random nonce, unless the caller derives one from the content. */
  seal(text: string, place: string, nonce: Buffer = this.#nextNonce()): string {
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce).setAAD(Buffer.from(place));
    const content = cipher.update(text, 'utf8');
    cipher.final();
    // The twelve bytes of a nonce end where a group of base64 does, so that both are one text as they are two.
    const head = Buffer.concat([nonce, cipher.getAuthTag()], NONCE_BYTES + TAG_BYTES);
    return head.toString('base64') + content.toString('base64');
  }

  /** Undefined if it was not sealed by this key for this place, or was changed since. */
  open(sealed: string, place: string): string | undefined {
    const nonce = Buffer.from(sealed.slice(0, NONCE_CHARS), 'base64');
    const tag = Buffer.from(sealed.slice(NONCE_CHARS, HEAD_CHARS), 'base64');
    if (nonce.length !== NONCE_BYTES || tag.length !== TAG_BYTES) return undefined;
    const decipher = createDecipheriv(ALGORITHM, this.#key, nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.from(place)).setAuthTag(tag);
    const text = decipher.update(sealed.slice(HEAD_CHARS), 'base64');
    try {
      decipher.final();
      return text.toString('utf8');
    } catch {
      return undefined; // Node says no more than that it failed
    }
  }

  /** Random bytes are drawn for many nonces at once, which is cheaper. */
  #nextNonce(): Buffer {
    if (this.#used === this.#nonces.length) {
      randomFillSync(this.#nonces);
      this.#used = 0;
    }
    this.#used += NONCE_BYTES;
    return this.#nonces.subarray(this.#used - NONCE_BYTES, this.#used);
  }
}

/** Sealing that gives equal texts of one kind equal forms, so that they can be looked up: the nonce is a keyed hash of the text. */
export class NameSealer {
  readonly #sealer: Sealer;
  readonly #hash: KeyedHash;

  constructor(secret: string) {
    this.#sealer = new Sealer(secret, 'names');
    this.#hash = new KeyedHash(secret, 'nonces of names');
  }

  seal(text: string): string {
    const sealed = this.#sealer.seal(text, 'name', this.#hash.digest(text).subarray(0, NONCE_BYTES));
    return sealed.replaceAll('=', '').replaceAll('+', '-').replaceAll('/', '_');
  }

  open(sealed: string): string | undefined {
    return this.#sealer.open(`${sealed.slice(0, HEAD_CHARS - 2)}==${sealed.slice(HEAD_CHARS - 2)}`, 'name');
  }
}

/** HMAC-SHA-256 under one key. */
export class KeyedHash {
  readonly #key: KeyObject;

  constructor(secret: string, purpose: string) {
    this.#key = createSecretKey(deriveKey(secret, purpose));
  }

  digest(text: string): Buffer {
    return createHmac('sha256', this.#key).update(text).digest();
  }
}

/**
 * Other digests in place of digests, and back: AES on each half. A digest's halves are never met alone, so that this shows as little
 * as a keyed hash would, and it can be undone, which spares storing each reference twice.
 */
export class DigestCipher {
  /** Every block is by itself, so that one object serves for ever. */
  readonly #cipher: Cipher;
  readonly #decipher: Decipher;
  readonly #hidden = new Recent<Digest, Digest>(MAX_HIDDEN);

  constructor(secret: string, purpose: string) {
    const key = deriveKey(secret, purpose);
    this.#cipher = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false);
    this.#decipher = createDecipheriv('aes-256-ecb', key, null).setAutoPadding(false);
  }

  /** Those that were hidden lately are remembered: most references of a checkpoint are those of the one before. */
  hide(digests: readonly Digest[]): Digest[] {
    if (digests.length > MAX_AT_ONCE) return this.#hide(digests);
    const fresh = digests.filter((digest) => this.#hidden.find(digest) === undefined);
    const names = this.#hide(fresh);
    for (const [at, digest] of fresh.entries()) this.#hidden.set(digest, names[at] as Digest);
    return digests.map((digest) => this.#hidden.find(digest) as Digest);
  }

  #hide(digests: readonly Digest[]): Digest[] {
    return digests.length === 0 ? [] : splitDigests(this.#cipher.update(digests.join(''), 'hex', 'hex'));
  }

  reveal(hidden: readonly Digest[]): Digest[] {
    return hidden.length === 0 ? [] : splitDigests(this.#decipher.update(hidden.join(''), 'hex', 'hex'));
  }
}
