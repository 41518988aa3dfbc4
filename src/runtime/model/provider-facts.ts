import type { LlmProvider } from './llm-config.ts';

/** Where a provider's key and address are found: variables that may hold them, in this order. */
type ProviderFacts = {
  readonly keyVariables?: readonly string[];
  readonly needsKey?: boolean;
  readonly baseUrlVariables?: readonly string[];
  readonly defaultBaseUrl?: string;
};

/** What is known about each provider. A server that is not OpenAI's never gets OpenAI's key unasked. */
export const PROVIDER_FACTS: Readonly<Record<LlmProvider, ProviderFacts>> = {
  openai: {
    keyVariables: ['OPENAI_API_KEY'],
    needsKey: true,
    baseUrlVariables: ['OPENAI_BASE_URL'],
    defaultBaseUrl: 'https://api.openai.com/v1',
  },
  azure: {
    keyVariables: ['AZURE_OPENAI_API_KEY', 'AZURE_API_KEY'],
    needsKey: true,
    baseUrlVariables: ['AZURE_OPENAI_ENDPOINT'],
  },
  'openai-compatible': {},
  ollama: { keyVariables: ['OLLAMA_API_KEY'], defaultBaseUrl: 'http://127.0.0.1:11434/v1' },
  vllm: { keyVariables: ['VLLM_API_KEY'], defaultBaseUrl: 'http://127.0.0.1:8000/v1' },
  lmstudio: { defaultBaseUrl: 'http://127.0.0.1:1234/v1' },
};
