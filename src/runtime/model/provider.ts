import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { importPeer } from '../../core/import-peer.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import type { LanguageModel } from './chat-model.ts';
import { type LlmConfig, type LlmProvider, parseBaseUrl } from './llm-config.ts';

/** Where a provider's key and address are found: variables that may hold them, in this order. */
type ProviderFacts = {
  readonly keyVariables?: readonly string[];
  readonly needsKey?: boolean;
  readonly baseUrlVariables?: readonly string[];
  readonly defaultBaseUrl?: string;
};

/** What is known about each provider. A server that is not OpenAI's never gets OpenAI's key unasked. */
const PROVIDER_FACTS: Readonly<Record<LlmProvider, ProviderFacts>> = {
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

/** Environment variables, given by whoever may read them. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Where a model is and how to get in. Azure's is below a resource, or at a base URL. */
export type ProviderAddress = {
  readonly key: string | undefined;
  readonly baseUrl: string | undefined;
  readonly resourceName: string | undefined;
  readonly apiVersion: string | undefined;
};

/** What decides about an address besides the configuration. */
export type AddressOptions = {
  readonly env: Environment;
  /** If given, a `baseUrl` of the configuration must have one of these hosts: for configurations that others wrote. */
  readonly allowedHosts?: readonly string[];
};

/** Finds key and address of a model. Throws an InvalidInputError that names the variable to set. */
export function resolveAddress(config: LlmConfig, options: AddressOptions): ProviderAddress {
  const { env } = options;
  const isAzure = config.provider === 'azure';
  const resourceName = isAzure ? (config.resourceName ?? readVariable(['AZURE_RESOURCE_NAME'], env)) : undefined;
  return {
    baseUrl: resolveBaseUrl(config, resourceName, options),
    resourceName,
    key: resolveKey(config, env),
    apiVersion: isAzure ? (config.apiVersion ?? readVariable(['OPENAI_API_VERSION'], env)) : undefined,
  };
}

function resolveKey({ provider, apiKey }: LlmConfig, env: Environment): string | undefined {
  const { keyVariables = [], needsKey = false } = PROVIDER_FACTS[provider];
  const named = typeof apiKey === 'string' ? apiKey.slice('env:'.length) : undefined;
  // A secret reference stands where a key was taken out; its name is that of the field, or of a variable.
  const marked = apiKey instanceof SecretRef ? [apiKey.name] : [];
  const key = readVariable(named === undefined ? [...marked, ...keyVariables] : [named], env);
  if (key !== undefined || (!needsKey && named === undefined)) return key;
  const variables = named === undefined ? keyVariables : [named];
  throw new InvalidInputError(
    `A model of ${provider} needs a key, and ${variables.join(' or ')} is not set. Set the variable, or name another with apiKey: "env:NAME".`,
    { details: { provider, variables } },
  );
}

function resolveBaseUrl(
  { provider, baseUrl }: LlmConfig,
  resourceName: string | undefined,
  { env, allowedHosts }: AddressOptions,
): string | undefined {
  if (baseUrl !== undefined) return checkHost(baseUrl, allowedHosts);
  const { baseUrlVariables = [], defaultBaseUrl } = PROVIDER_FACTS[provider];
  for (const name of baseUrlVariables) {
    const found = readVariable([name], env);
    if (found !== undefined) return parseBaseUrl(found, name);
  }
  if (defaultBaseUrl !== undefined || resourceName !== undefined) return defaultBaseUrl;
  const wanted = provider === 'azure' ? 'a resourceName or baseUrl' : 'a baseUrl';
  const advice = baseUrlVariables.length === 0 ? '' : `, or set ${baseUrlVariables.join(' or ')}`;
  throw new InvalidInputError(`A model of ${provider} needs ${wanted}. Give it in the llmConfig${advice}.`, {
    details: { provider, variables: baseUrlVariables },
  });
}

function checkHost(baseUrl: string, allowedHosts: readonly string[] | undefined): string {
  const { host } = new URL(baseUrl);
  if (allowedHosts === undefined || allowedHosts.includes(host)) return baseUrl;
  throw new InvalidInputError(`The llmConfig would send its key to ${host}, which is not among the allowed hosts.`, {
    details: { host, allowedHosts },
  });
}

function readVariable(names: readonly string[], env: Environment): string | undefined {
  return names.map((name) => env[name]?.trim()).find((value) => value !== undefined && value !== '');
}

type OpenOptions = ProviderAddress & { readonly fetch?: typeof globalThis.fetch | undefined };

/** Loads the package of a provider and makes the language model that a configuration names. Everything is passed in: the packages would read variables themselves. */
export async function openLanguageModel(config: LlmConfig, options: OpenOptions): Promise<LanguageModel> {
  switch (config.provider) {
    case 'openai':
      return openOpenAi(config, options);
    case 'azure':
      return openAzure(config, options);
    default:
      return openCompatible(config, options);
  }
}

async function openOpenAi({ model, api }: LlmConfig, { key = '', baseUrl = '', fetch }: OpenOptions) {
  const { createOpenAI } = await importPeer('@ai-sdk/openai', () => import('@ai-sdk/openai'));
  const provider = createOpenAI(withoutUndefined({ apiKey: key, baseURL: baseUrl, fetch }));
  return api === 'responses' ? provider.responses(model) : provider.chat(model);
}

async function openCompatible({ provider: name, model }: LlmConfig, { key, baseUrl = '', fetch }: OpenOptions) {
  const { createOpenAICompatible } = await importPeer(
    '@ai-sdk/openai-compatible',
    () => import('@ai-sdk/openai-compatible'),
  );
  return createOpenAICompatible(withoutUndefined({ name, baseURL: baseUrl, includeUsage: true, apiKey: key, fetch }))(
    model,
  );
}

async function openAzure(config: LlmConfig, { key = '', baseUrl, resourceName, apiVersion, fetch }: OpenOptions) {
  const { createAzure } = await importPeer('@ai-sdk/azure', () => import('@ai-sdk/azure'));
  const baseURL = baseUrl === undefined ? undefined : toAzureBase(baseUrl);
  const useDeploymentBasedUrls = apiVersion === undefined ? undefined : isDated(apiVersion);
  const provider = createAzure(
    withoutUndefined({ apiKey: key, baseURL, resourceName, apiVersion, useDeploymentBasedUrls, fetch }),
  );
  const name = config.deployment ?? config.model;
  return config.api === 'responses' ? provider.responses(name) : provider.chat(name);
}

/** Azure shows people the address of the resource; requests go below `/openai`. */
function toAzureBase(baseUrl: string): string {
  const url = new URL(baseUrl);
  return url.pathname === '/' ? new URL('/openai', url).href : baseUrl;
}

/** Versions that are dates belong to addresses with the deployment in them; `v1` and `preview` to those without. */
function isDated(apiVersion: string): boolean {
  return /^\d{4}-\d{2}-\d{2}/.test(apiVersion);
}
