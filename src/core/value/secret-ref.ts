/** Stands in a restored state where a secret was left out of the checkpoint. */
export class SecretRef {
  /** The key or pattern that gave the secret away, such as `apiKey` or `openai_key`. */
  readonly name: string;

  constructor(name: string) {
    this.name = name;
    Object.freeze(this);
  }

  toString(): string {
    return `[secret ${this.name}]`;
  }
}
