import { z } from 'zod';
import { withoutUndefined } from '../../core/defined.ts';
import { InvalidInputError } from '../../core/errors.ts';
import { suggest } from '../../core/suggestion.ts';
import { MAX_DELAY_MS } from '../../core/time/timer.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import type { ModelPrices, ModelSettings } from './chat-model.ts';
import type { RetryPolicy } from './with-retries.ts';

/** The providers that can be named; the last three are local servers that speak OpenAI's protocol. */
export const PROVIDERS = ['openai', 'azure', 'openai-compatible', 'ollama', 'vllm', 'lmstudio'] as const;

export type LlmProvider = (typeof PROVIDERS)[number];

/** What a model is built from, as plain data that may be stored: it names its key and never holds it. */
export type LlmConfig = ModelSettings & {
  readonly provider: LlmProvider;
  /** The model's name; for Azure the name of the deployment, unless `deployment` gives it. */
  readonly model: string;
  readonly baseUrl?: string;
  /** `chat` (default): chat completions, the whole conversation in every request. `responses`: OpenAI's and Azure's newer API. */
  readonly api?: 'chat' | 'responses';
  /** Azure: the API version of deployment-based addresses, such as `2024-10-21`. */
  readonly apiVersion?: string;
  /** Azure: `https://<resourceName>.openai.azure.com`. */
  readonly resourceName?: string;
  readonly deployment?: string;
  /** Where the key is: `env:NAME`. The provider's own variable if absent. */
  readonly apiKey?: string | SecretRef;
  readonly prices?: ModelPrices;
  readonly retry?: RetryPolicy;
};

const count = z.int().positive();
const jsonObject = z.record(z.string(), z.json());

const SETTINGS = {
  temperature: z.number().min(0).max(2).optional(),
  topP: z.number().min(0).max(1).optional(),
  topK: count.optional(),
  presencePenalty: z.number().min(-2).max(2).optional(),
  frequencyPenalty: z.number().min(-2).max(2).optional(),
  maxOutputTokens: count.optional(),
  seed: z.int().optional(),
  stopSequences: z.array(z.string().min(1)).optional(),
  timeoutMs: count.max(MAX_DELAY_MS).optional(),
  providerOptions: z.record(z.string(), jsonObject).optional(),
};

const KEY_REFERENCE = /^env:[A-Za-z_][A-Za-z0-9_]*$/;

/** The name of a reference that was JSON in between: a mark now, and an object in older files. */
function nameOfSecret(value: unknown): string | undefined {
  if (typeof value === 'string') return /^\[secret ([^\]\n]{1,80})\]$/.exec(value)?.[1];
  const name = typeof value === 'object' && value !== null && 'name' in value ? value.name : undefined;
  return typeof name === 'string' ? name : undefined;
}

/** A key found here is refused without being shown: it would be on its way into a checkpoint. */
const apiKey = z.unknown().transform((value, context): string | SecretRef => {
  if (value instanceof SecretRef) return value;
  if (typeof value === 'string' && KEY_REFERENCE.test(value)) return value;
  const name = nameOfSecret(value);
  if (name !== undefined) return new SecretRef(name);
  context.addIssue({
    code: 'custom',
    message:
      'must name the environment variable that holds the key, such as "env:OPENAI_API_KEY", and not be a key itself',
  });
  return z.NEVER;
});

const baseUrl = z
  .url({ protocol: /^https?$/, error: 'must be an http or https address', abort: true })
  .refine((text) => new URL(text).username === '' && new URL(text).password === '', {
    error: 'must not hold a user name or password',
  });

const priceUsd = z.number().nonnegative();

const fields = z.strictObject({
  provider: z.enum(PROVIDERS),
  model: z.string().min(1),
  baseUrl: baseUrl.optional(),
  api: z.enum(['chat', 'responses']).optional(),
  apiVersion: z.string().min(1).optional(),
  resourceName: z
    .string()
    .regex(/^[A-Za-z0-9-]+$/, { error: 'must be letters, digits and hyphens' })
    .optional(),
  deployment: z.string().min(1).optional(),
  apiKey: apiKey.optional(),
  prices: z
    .strictObject({
      inputPerMillionUsd: priceUsd,
      outputPerMillionUsd: priceUsd,
      cachedInputPerMillionUsd: priceUsd.optional(),
    })
    .optional(),
  retry: z
    .strictObject({
      maxAttempts: count.max(100).optional(),
      initialDelayMs: z.int().nonnegative().optional(),
      maxDelayMs: z.int().nonnegative().optional(),
    })
    .optional(),
  ...SETTINGS,
});

/** Keys that only some providers know. Ignoring them for the others would be a silent mistake. */
const ONLY_FOR: readonly (readonly [keyof LlmConfig, readonly LlmProvider[]])[] = [
  ['api', ['openai', 'azure']],
  ['apiVersion', ['azure']],
  ['resourceName', ['azure']],
  ['deployment', ['azure']],
];

const schema = fields.superRefine((config, context) => {
  for (const [key, providers] of ONLY_FOR) {
    if (config[key] === undefined || providers.includes(config.provider)) continue;
    context.addIssue({ code: 'custom', path: [key], message: `is only for ${providers.join(' and ')}` });
  }
});

/** What other programs call these settings. */
const FOREIGN_NAMES: Readonly<Record<string, string>> = {
  max_tokens: 'maxOutputTokens',
  maxTokens: 'maxOutputTokens',
  max_completion_tokens: 'maxOutputTokens',
  timeout: 'timeoutMs',
  api_type: 'provider',
  azure_deployment: 'deployment',
  azure_endpoint: 'baseUrl',
  endpoint: 'baseUrl',
  stop: 'stopSequences',
  maxRetries: 'retry',
  max_retries: 'retry',
};

/** Checks a configuration. Throws an InvalidInputError that names every key that is wrong, and never the value of one. */
export function parseLlmConfig(value: unknown): LlmConfig {
  const result = schema.safeParse(value);
  // The decoding line: zod writes optional keys as `| undefined`, though it leaves out what is absent.
  if (result.success) return withoutUndefined(result.data) as LlmConfig;
  const problems = result.error.issues.map(describeIssue);
  throw new InvalidInputError(`This llmConfig cannot be used: ${problems.join('; ')}.`, { details: { problems } });
}

/** Checks an address that comes from elsewhere, such as a variable. */
export function parseBaseUrl(text: string, source: string): string {
  const result = baseUrl.safeParse(text);
  if (result.success) return result.data;
  throw new InvalidInputError(`${source} ${result.error.issues[0]?.message ?? 'cannot be used'}.`, {
    details: { source },
  });
}

/** The settings of a configuration, as they belong into a request. */
export function requestSettings(config: LlmConfig): ModelSettings {
  const settings = Object.fromEntries(Object.entries(config).filter(([key]) => Object.hasOwn(SETTINGS, key)));
  if (config.api !== 'responses') return settings;
  // That would keep the conversation and be sent references into it: an edited or restored message would not reach the model. So it
  // is told to keep nothing, and what it wants back comes with the messages.
  const { provider, providerOptions } = config;
  const name = provider === 'azure' ? 'azure' : 'openai';
  return { ...settings, providerOptions: { ...providerOptions, [name]: { store: false, ...providerOptions?.[name] } } };
}

function describeIssue(issue: z.core.$ZodIssue): string {
  const path = issue.path.map(String).join('.');
  if (issue.code !== 'unrecognized_keys') return path === '' ? issue.message : `${path}: ${issue.message}`;
  return issue.keys.map((key) => suggestKey(key, path)).join('; ');
}

function suggestKey(key: string, path: string): string {
  const meant = path === '' ? (FOREIGN_NAMES[key] ?? suggest(key, Object.keys(fields.shape))) : nested(key, path);
  const name = path === '' ? key : `${path}.${key}`;
  return `"${name}" is unknown${meant === undefined ? '' : `, did you mean "${meant}"?`}`;
}

function nested(key: string, path: string): string | undefined {
  if (path !== 'prices' && path !== 'retry') return undefined;
  return suggest(key, Object.keys(fields.shape[path].unwrap().shape));
}
