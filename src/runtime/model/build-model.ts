import { withoutUndefined } from '../../core/defined.ts';
import type { ChatModel, ModelSettings } from './chat-model.ts';
import { fromLanguageModel } from './from-language-model.ts';
import { type LlmConfig, parseLlmConfig, requestSettings } from './llm-config.ts';
import { type AddressOptions, openLanguageModel, resolveAddress } from './provider.ts';
import { type RetryPorts, withRetries } from './with-retries.ts';

export type { Environment } from './provider.ts';

/** What a model needs besides its configuration. */
export type BuildOptions = AddressOptions &
  RetryPorts & {
    /** Makes the requests: for proxies, and for certificates of one's own. */
    readonly fetch?: typeof globalThis.fetch;
    readonly now?: () => number;
  };

/** Shorter ones are words such as `none`, which local servers take for a key: they would be found everywhere. */
const MIN_SECRET_CHARS = 8;

/**
 * Builds the model that a configuration describes, with its retries. The key is read from `env` now, and stays in here: it is in no
 * request, reply or error. Throws an InvalidInputError if the configuration is wrong or the key is not there. The provider's package
 * is loaded with the first request.
 */
export function buildModel(config: LlmConfig, options: BuildOptions): ChatModel {
  const checked = parseLlmConfig(config);
  const address = resolveAddress(checked, options);
  const { key = '' } = address;
  const id = `${checked.provider}:${checked.deployment ?? checked.model}`;
  const secrets = key.length >= MIN_SECRET_CHARS ? [key] : [];
  const open = once(async () => {
    const model = await openLanguageModel(checked, { ...address, fetch: withoutRedirects(options.fetch) });
    return fromLanguageModel(model, withoutUndefined({ id, prices: checked.prices, secrets, now: options.now }));
  });
  const defaults = requestSettings(checked);
  const single: ChatModel = {
    id,
    async reply(request, call) {
      return (await open()).reply({ ...request, settings: mergeSettings(defaults, request.settings) }, call);
    },
  };
  return withRetries(single, checked.retry, options);
}

/** A redirect would take the conversation, and a key in a header of its own, to a host that nobody allowed. It fails as any other status. */
function withoutRedirects(ask = fetch): typeof fetch {
  return (input, init) => ask(input, { ...init, redirect: 'manual' });
}

/** What a request says goes before what the configuration says, also within the options of one provider. */
function mergeSettings(defaults: ModelSettings, own: ModelSettings = {}): ModelSettings {
  const providerOptions = { ...defaults.providerOptions };
  for (const [name, options] of Object.entries(own.providerOptions ?? {}))
    providerOptions[name] = { ...providerOptions[name], ...options };
  return { ...defaults, ...own, ...(Object.keys(providerOptions).length > 0 && { providerOptions }) };
}

/** Makes it at the first call; tries again after a failure. */
function once<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let made: Promise<Value> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
