import { InvalidInputError } from '../../core/errors.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { type LlmConfig, parseBaseUrl } from './llm-config.ts';
import { PROVIDER_FACTS } from './provider-facts.ts';

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
