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

  /** What files and prompts that are JSON say instead, so that nobody takes it for a value. */
  toJSON(): string {
    return this.toString();
  }
}
