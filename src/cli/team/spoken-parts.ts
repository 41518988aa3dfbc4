/** What is said, as it comes. Words that were streamed are not said again when their message is complete. */
export class SpokenParts {
  readonly #waiting: string[] = [];
  #streamed = '';
  #isOver = false;
  #error: unknown;
  #wake: () => void = () => undefined;

  add(speaker: string, delta: string): void {
    this.#push(this.#streamed === '' ? `\n${speaker}: ${delta}` : delta);
    this.#streamed += delta;
  }

  finish(name: string, content: string): void {
    if (this.#streamed === '') this.#push(`\n${name}: ${content}`);
    this.#push('\n');
    this.#streamed = '';
  }

  end(text: string): void {
    this.#push(`\n${text}`);
    this.#isOver = true;
    this.#wake();
  }

  fail(error: unknown): void {
    this.#error = error;
    this.#isOver = true;
    this.#wake();
  }

  #push(text: string): void {
    this.#waiting.push(text);
    this.#wake();
  }

  /** Everything that is said, until the end; throws what it failed with. */
  async *read(): AsyncGenerator<string> {
    for (;;) {
      for (let part = this.#waiting.shift(); part !== undefined; part = this.#waiting.shift()) yield part;
      if (this.#isOver) break;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    if (this.#error !== undefined) throw this.#error;
  }
}
