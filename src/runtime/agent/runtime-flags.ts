/** What a runtime does with an agent's words and state. */
export type RuntimeFlags = {
  /** Its words are passed on while they come; default true. */
  readonly stream: boolean;
  /** What it says is remembered in long-term memory; default false. */
  readonly store: boolean;
  /** Its changes are saved by themselves; default true. */
  readonly checkpoint: boolean;
};

export const DEFAULT_RUNTIME: RuntimeFlags = { stream: true, store: false, checkpoint: true };
