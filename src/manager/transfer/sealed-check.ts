import { hasErrorCode, messageOf, type SavestateError } from '../../core/errors.ts';
import type { CheckpointRowWithRoot, EffectRow } from '../../storage/contract.ts';
import type { Keys } from '../../storage/encryption/keys.ts';
import { openEffect, openRowWithRoot } from '../../storage/encryption/sealed-rows.ts';
import { Vault } from '../../storage/encryption/vault.ts';
import { parseEffect } from '../effect/effect-record.ts';
import { parseRoot, parseRow, parseTombstone } from '../engine/records.ts';
import { isSealedEffect, isSealedRow } from './copied-record.ts';

/** Keys are read again after so long, if one is missing: others may have added it since. */
const READ_AGAIN_MS = 60_000;

/** Opens what a copy takes along sealed, to see that it is whole; it is stored as it is. */
export class SealedCheck {
  /** How many records could not be opened: there are no keys, or not theirs. */
  unchecked = 0;
  /** Why the first one could not be opened whose key was not removed, if there are keys. */
  problem: string | undefined;
  readonly #keys: Keys | undefined;
  #vault: Vault | undefined;
  #readAtMs = 0;

  constructor(keys: Keys | undefined) {
    this.#keys = keys;
  }

  /** Throws a CorruptError if a checkpoint or tombstone is not what was written. */
  async checkRow(row: CheckpointRowWithRoot): Promise<void> {
    if (!isSealedRow(row)) return;
    const opened = await this.#open((vault) => openRowWithRoot(vault, row));
    if (opened === undefined) return;
    if (opened.isDeleted) parseTombstone(opened);
    else if (opened.root !== undefined) parseRoot(parseRow(opened), opened.root);
  }

  /** The same of a recorded step. */
  async checkEffect(row: EffectRow): Promise<void> {
    if (!isSealedEffect(row)) return;
    const opened = await this.#open((vault) => openEffect(vault, row));
    if (opened !== undefined) parseEffect(opened);
  }

  async #open<Opened>(open: (vault: Vault) => Opened): Promise<Opened | undefined> {
    try {
      if (this.#keys !== undefined) return open(await this.#read(this.#keys));
    } catch (error) {
      if (!hasErrorCode(error, 'KEY')) throw error;
      const isMissing = (error as SavestateError).details.reason === 'missing';
      if (isMissing && performance.now() - this.#readAtMs > READ_AGAIN_MS) {
        this.#vault = undefined;
        return this.#open(open);
      }
      if (isMissing) this.problem ??= messageOf(error);
    }
    this.unchecked++;
    return undefined;
  }

  async #read(keys: Keys): Promise<Vault> {
    if (this.#vault !== undefined) return this.#vault;
    this.#vault = new Vault(await keys.read());
    this.#readAtMs = performance.now();
    return this.#vault;
  }
}
