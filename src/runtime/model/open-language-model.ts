import { withoutUndefined } from '../../core/defined.ts';
import type { LanguageModel } from './language-model.ts';
import type { LlmConfig } from './llm-config.ts';
import { importPeer } from './peer-package.ts';
import type { ProviderAddress } from './provider-address.ts';

/** An address, and what makes its requests. */
export type OpenOptions = ProviderAddress & { readonly fetch?: typeof globalThis.fetch | undefined };

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
