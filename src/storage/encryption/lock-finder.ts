import { KeyError } from '../../core/errors.ts';
import type { CheckpointId, SessionId } from '../../core/record/id.ts';
import type { ChunkStorage } from '../contract.ts';
import { checkKeyName, MAIN_KEY } from './keyring.ts';
import { Recent } from './recent.ts';
import { sealedTextOf, sealSession } from './sealed-rows.ts';
import type { Lock, Vault } from './vault.ts';
import type { VaultDoor } from './vault-door.ts';

const MAX_SESSIONS = 10_000;
const MAX_CHECKPOINTS = 50_000;

/** Knows which lock a session is under: the one it was begun with, whatever `keyFor` says later. */
export class LockFinder {
  readonly #inner: ChunkStorage;
  readonly #door: VaultDoor;
  readonly #keyFor: ((sessionId: string) => string) | undefined;
  #names = new Recent<SessionId, Promise<string>>(MAX_SESSIONS);
  /** Locks of checkpoints, by name. */
  #checkpoints = new Recent<CheckpointId, string>(MAX_CHECKPOINTS);
  #vault: Vault | undefined;

  constructor(inner: ChunkStorage, door: VaultDoor, keyFor: ((sessionId: string) => string) | undefined) {
    this.#inner = inner;
    this.#door = door;
    this.#keyFor = keyFor;
  }

  /** The lock of every session, if nobody chooses and there is one. */
  single(vault: Vault): Lock | undefined {
    return this.#keyFor === undefined ? vault.onlyLock : undefined;
  }

  /** The lock for what is written to a session; its key is made if it is the first. One that is begun now is under that of `model`, if given. */
  async find(vault: Vault, sessionId: SessionId, model = sessionId): Promise<Lock> {
    this.#startAnew(vault);
    const naming = this.#names.get(sessionId, () => this.#nameOf(vault, sessionId, model));
    const name = await naming.catch((error: unknown) => {
      this.drop(sessionId);
      throw error;
    });
    const lock = vault.lock(name) ?? (await this.#door.add(name))?.lock(name);
    if (lock !== undefined) return lock;
    throw new KeyError(`There is no key "${name}", which session "${sessionId}" needs. Add one with that name.`, {
      details: { reason: 'missing', name },
    });
  }

  /** A name whose key was removed would be given a new one, and what was forgotten would be written on. */
  #startAnew(vault: Vault): void {
    if (this.#vault === vault) return;
    if (this.#vault !== undefined && vault.hasRemovedOf(this.#vault)) {
      this.#names = new Recent(MAX_SESSIONS);
      this.#checkpoints = new Recent(MAX_CHECKPOINTS);
    }
    this.#vault = vault;
  }

  async #nameOf(vault: Vault, sessionId: SessionId, model: SessionId): Promise<string> {
    for (const one of new Set([sessionId, model])) {
      const [row] = await this.#inner.listCheckpoints({ sessionId: sealSession(vault, one), limit: 1 });
      if (row !== undefined) return vault.lockOf(sealedTextOf(row), `Session "${one}"`).name;
    }
    const name = this.#chooseName(model);
    if (vault.hasForgotten(name)) await this.#checkSteps(vault, sessionId);
    return name;
  }

  #chooseName(sessionId: SessionId): string {
    if (this.#keyFor === undefined) return MAIN_KEY;
    const name = this.#keyFor(sessionId);
    checkKeyName(name, `The name of a key that keyFor returned for session "${sessionId}"`);
    return name;
  }

  /** Of a session without a checkpoint, its steps may be what was forgotten. */
  async #checkSteps(vault: Vault, sessionId: SessionId): Promise<void> {
    for (const { body } of await this.#inner.readEffects({ sessionId: sealSession(vault, sessionId) }))
      vault.lockOf(body, `Session "${sessionId}"`);
  }

  drop(sessionId: SessionId): void {
    this.#names.delete(sessionId);
  }

  /** Whether a commit requires a checkpoint that is under another lock. */
  async hasForeign(
    vault: Vault,
    lock: Lock,
    { requires, own }: { readonly requires: readonly CheckpointId[]; readonly own: CheckpointId | undefined },
  ): Promise<boolean> {
    if (own !== undefined) this.#checkpoints.set(own, lock.name);
    for (const id of requires) if ((await this.#lockNameOf(vault, id)) !== lock.name) return true;
    return false;
  }

  /** Undefined if it is not there, or deleted; then the commit is refused below. */
  async #lockNameOf(vault: Vault, id: CheckpointId): Promise<string | undefined> {
    const known = this.#checkpoints.find(id);
    if (known !== undefined) return known;
    const row = await this.#inner.readCheckpoint(id);
    if (row === undefined || row.isDeleted) return undefined;
    const { name } = vault.lockOf(sealedTextOf(row), `Checkpoint ${id}`);
    this.#checkpoints.set(id, name);
    return name;
  }
}
