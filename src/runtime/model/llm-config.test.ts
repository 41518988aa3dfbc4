import { describe, expect, test } from 'vitest';
import { hasErrorCode } from '../../core/errors.ts';
import { SecretRef } from '../../core/value/secret-ref.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { type LlmConfig, parseLlmConfig, requestSettings } from './llm-config.ts';

const FULL: LlmConfig = {
  provider: 'azure',
  model: 'gpt-test',
  baseUrl: 'https://gateway.example/openai',
  api: 'responses',
  apiVersion: '2024-10-21',
  resourceName: 'my-resource',
  deployment: 'mine',
  apiKey: 'env:MY_KEY',
  temperature: 0.2,
  topP: 0.9,
  topK: 40,
  presencePenalty: 0.1,
  frequencyPenalty: -0.1,
  maxOutputTokens: 1000,
  seed: 1,
  stopSequences: ['END'],
  timeoutMs: 5000,
  providerOptions: { azure: { reasoningEffort: 'low' } },
  prices: { inputPerMillionUsd: 1, outputPerMillionUsd: 2, cachedInputPerMillionUsd: 0.5 },
  retry: { maxAttempts: 5, initialDelayMs: 10, maxDelayMs: 100 },
};

function refusal(value: unknown): string {
  try {
    parseLlmConfig(value);
  } catch (error) {
    if (hasErrorCode(error, 'INVALID_INPUT')) return JSON.stringify([(error as Error).message, error]);
  }
  throw new Error('it was taken');
}

const openai = (more: object) => ({ provider: 'openai', model: 'm', ...more });

test('[model.8] a configuration is plain data: it comes back from JSON and from a checkpoint as it was', async () => {
  expect(parseLlmConfig(FULL)).toEqual(FULL);
  expect(parseLlmConfig(JSON.parse(JSON.stringify(FULL)))).toEqual(FULL);
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage() });
  const session = await manager.session('s');
  const saved = await session.save({ llmConfig: FULL });
  const { llmConfig } = (await manager.load(saved)) as { llmConfig: unknown };
  expect(parseLlmConfig(llmConfig)).toEqual(FULL);
  await manager.close();
});

test('[model.8] a secret reference may stand for the key, also after JSON', () => {
  const apiKey = new SecretRef('apiKey');
  expect(parseLlmConfig(openai({ apiKey })).apiKey).toEqual(apiKey);
  const { apiKey: read } = parseLlmConfig(JSON.parse(JSON.stringify(openai({ apiKey }))));
  expect(read).toBeInstanceOf(SecretRef);
});

test.each(['sk-proj-0123456789abcdefghij', 'env:', 'env:not a name', 'file:/key', '', 42, null, ['env:X']])(
  '[model.8] %j is no reference to a key; it is refused and not shown',
  (apiKey) => {
    const said = refusal(openai({ apiKey }));
    expect(said).toContain('apiKey');
    expect(said).toContain('env:OPENAI_API_KEY');
    if (typeof apiKey === 'string' && apiKey.length > 4) expect(said).not.toContain(apiKey);
  },
);

describe('unknown keys', () => {
  test.each([
    ['base_url', 'baseUrl'],
    ['baseURL', 'baseUrl'],
    ['temprature', 'temperature'],
    ['max_tokens', 'maxOutputTokens'],
    ['api_key', 'apiKey'],
    ['timeout', 'timeoutMs'],
    ['topp', 'topP'],
  ])('[model.8] %s is refused, and %s suggested', (key, meant) => {
    const said = refusal(openai({ [key]: 'sk-0123456789abcdefghij' }));
    expect(JSON.parse(said)[0]).toContain(`"${key}" is unknown, did you mean "${meant}"?`);
    expect(said).not.toContain('sk-0123456789');
  });

  test('[model.8] a key that is like none gets no suggestion; those of inner objects are named with their path', () => {
    expect(JSON.parse(refusal(openai({ zzzzzz: 1 })))[0]).toMatch(/"zzzzzz" is unknown\.$/);
    const inner = JSON.parse(refusal(openai({ retry: { maxAtempts: 1 } })))[0];
    expect(inner).toContain('"retry.maxAtempts" is unknown, did you mean "maxAttempts"?');
  });
});

test.each([
  ['no provider', { model: 'm' }, 'provider'],
  ['an unknown provider', { provider: 'opnai', model: 'm' }, 'provider'],
  ['no model', { provider: 'openai' }, 'model'],
  ['a temperature of 9', openai({ temperature: 9 }), 'temperature'],
  ['a seed of 1.5', openai({ seed: 1.5 }), 'seed'],
  ['no attempts', openai({ retry: { maxAttempts: 0 } }), 'retry.maxAttempts'],
  [
    'a negative price',
    openai({ prices: { inputPerMillionUsd: -1, outputPerMillionUsd: 1 } }),
    'prices.inputPerMillionUsd',
  ],
  ['a file for an address', openai({ baseUrl: 'file:///etc/passwd' }), 'baseUrl'],
  ['a time that timers cannot take', openai({ timeoutMs: 2 ** 31 }), 'timeoutMs'],
  ["Azure's keys for others", openai({ deployment: 'd' }), 'deployment: is only for azure'],
  [
    'an API the provider has not',
    { provider: 'ollama', model: 'm', api: 'responses' },
    'api: is only for openai and azure',
  ],
  ['a list', [], ''],
  ['nothing', undefined, ''],
])('[model.8] %s is refused by name', (_, value, name) => {
  expect(JSON.parse(refusal(value))[0]).toContain(name);
});

test('[model.8] a password in the address is refused and not shown', () => {
  const said = refusal(openai({ baseUrl: 'https://me:hunter2@example.com/v1' }));
  expect(said).toContain('baseUrl');
  expect(said).not.toContain('hunter2');
});

test('[model.8] all that is wrong is told at once', () => {
  const [message] = JSON.parse(refusal({ provider: 'x', model: '', temprature: 1 })) as [string];
  for (const name of ['provider', 'model', 'temprature']) expect(message).toContain(name);
});

test('[model.3] the settings of a configuration are what belongs into a request', () => {
  const OTHERS = 'provider model baseUrl api apiVersion resourceName deployment apiKey prices retry'.split(' ');
  const settings = Object.fromEntries(Object.entries(FULL).filter(([key]) => !OTHERS.includes(key)));
  expect(requestSettings(FULL)).toEqual({
    ...settings,
    providerOptions: { azure: { store: false, reasoningEffort: 'low' } },
  });
  expect(requestSettings({ provider: 'openai', model: 'm' })).toEqual({});
});
