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

const ALGORITHM = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** AES-256-GCM under one key. What is sealed opens only with the same `place`, so that it cannot be moved. */
export class Sealer {
  readonly #key: KeyObject;
  readonly #nonces = Buffer.alloc(NONCE_BYTES * 256);
  #used = this.#nonces.length;

  constructor(secret: string, purpose: string) {
    this.#key = createSecretKey(deriveKey(secret, purpose));
  }

  /** With a random nonce, unless the caller derives one from the content. */
  seal(text: string, place: string, nonce: Uint8Array = this.#nextNonce()): Buffer {
    const cipher = createCipheriv(ALGORITHM, this.#key, nonce).setAAD(Buffer.from(place));
    const parts = [nonce, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()];
    return Buffer.concat(parts);
  }

  /** Undefined if it was not sealed by this key for this place, or was changed since. */
  open(sealed: Buffer, place: string): string | undefined {
    if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined;
    const end = sealed.length - TAG_BYTES;
    const decipher = createDecipheriv(ALGORITHM, this.#key, sealed.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(place)).setAuthTag(sealed.subarray(end));
    const text = decipher.update(sealed.subarray(NONCE_BYTES, end));
    try {
      decipher.final();
      return text.toString('utf8');
    } catch {
      return undefined; // Node says no more than that it failed
    }
  }

  /** Random bytes are drawn for many nonces at once, which is cheaper. */
  #nextNonce(): Uint8Array {
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
    return this.#sealer.seal(text, 'name', this.#hash.digest(text).subarray(0, NONCE_BYTES)).toString('base64url');
  }

  open(sealed: string): string | undefined {
    return this.#sealer.open(Buffer.from(sealed, 'base64url'), 'name');
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

  constructor(secret: string, purpose: string) {
    const key = deriveKey(secret, purpose);
    this.#cipher = createCipheriv('aes-256-ecb', key, null).setAutoPadding(false);
    this.#decipher = createDecipheriv('aes-256-ecb', key, null).setAutoPadding(false);
  }

  hide(digests: readonly Digest[]): Digest[] {
    return splitDigests(this.#cipher.update(digests.join(''), 'hex', 'hex'));
  }

  reveal(hidden: readonly Digest[]): Digest[] {
    return splitDigests(this.#decipher.update(hidden.join(''), 'hex', 'hex'));
  }
}
