/** Prints what is said, as it comes. Words that were streamed are not said again when their message is complete. */
export class Speech {
  readonly #print: (text: string) => void;
  #isStreamed = false;

  constructor(print: (text: string) => void) {
    this.#print = print;
  }

  readonly onText = (speaker: string, delta: string): void => {
    this.#print(this.#isStreamed ? delta : `\n${speaker}: ${delta}`);
    this.#isStreamed ||= delta !== '';
  };

  readonly onMessage = ({ name, content }: { readonly name: string; readonly content: string }): void => {
    this.#print(this.#isStreamed ? '\n' : `\n${name}: ${content}\n`);
    this.#isStreamed = false;
  };
}
