/** When a person is asked: never; when the conversation would end or the agent has replied often enough; before every reply. */
export type HumanInputMode = 'NEVER' | 'TERMINATE' | 'ALWAYS';

/** A question to a person. It lives in the checkpoint until it is answered. */
export type HumanRequest = {
  /** The same however often the run is resumed. */
  readonly id: string;
  readonly agent: string;
  readonly kind: 'reply' | 'end' | 'speaker';
  readonly prompt: string;
  readonly choices?: readonly string[];
};

/** Asks a person; undefined if there is no answer now: then the run stops and can be continued with one. */
export type AskHuman = (
  request: HumanRequest,
  options: { readonly signal?: AbortSignal | undefined },
) => Promise<string | undefined>;

/** What a person types to end a conversation. */
export const EXIT = 'exit';
