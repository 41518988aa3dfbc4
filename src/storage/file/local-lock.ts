type Waiter = { readonly isExclusive: boolean; readonly enter: () => void };

/** Shared and exclusive sections inside one process, in the order they were asked for. */
export class LocalLock {
  readonly #waiting: Waiter[] = [];
  #sharing = 0;
  #isExclusive = false;

  async run<T>(isExclusive: boolean, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((enter) => {
      this.#waiting.push({ isExclusive, enter });
      this.#admit();
    });
    try {
      return await work();
    } finally {
      if (isExclusive) this.#isExclusive = false;
      else this.#sharing--;
      this.#admit();
    }
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined && this.#canEnter(next); next = this.#waiting[0]) {
      this.#waiting.shift();
      if (next.isExclusive) this.#isExclusive = true;
      else this.#sharing++;
      next.enter();
    }
  }

  #canEnter({ isExclusive }: Waiter): boolean {
    return !this.#isExclusive && (!isExclusive || this.#sharing === 0);
  }
}
