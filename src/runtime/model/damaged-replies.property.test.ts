import fc from 'fast-check';
import { expect, test } from 'vitest';
import { hasErrorCode } from '../../core/errors.ts';
import { formatChatChunks, formatChatCompletion } from '../../testing/model/chat-completion-format.ts';
import { formatResponse, formatResponseEvents } from '../../testing/model/responses-format.ts';
import { buildModel } from './build-model.ts';
import type { ModelReply, ModelRequest } from './chat-model.ts';
import type { LlmConfig } from './llm-config.ts';

const REQUEST: ModelRequest = {
  messages: [{ role: 'user', content: 'hello' }],
  tools: [{ name: 'add', inputSchema: { type: 'object' } }],
};

const CHAT = { whole: formatChatCompletion, stream: formatChatChunks };
const RESPONSES = { whole: formatResponse, stream: formatResponseEvents };
const baseUrl = 'http://127.0.0.1:9/v1';

const PATHS: readonly { readonly config: LlmConfig; readonly format: typeof CHAT }[] = [
  { config: { provider: 'openai', model: 'm', baseUrl }, format: CHAT },
  { config: { provider: 'openai', model: 'm', baseUrl, api: 'responses' }, format: RESPONSES },
  { config: { provider: 'vllm', model: 'm', baseUrl }, format: CHAT },
];

const served = {
  index: 0,
  body: { model: 'm', stream_options: { include_usage: true } },
  reply: {
    text: 'Hello there.',
    reasoning: { text: 'Hm.', encrypted: 'opaque' },
    toolCalls: [{ name: 'add', input: { a: 1 } }],
  },
};

type Damage = { readonly at: number; readonly value: unknown };

/** Puts something else, or nothing, in the place of one value of a document. */
function damage(document: unknown, { at, value }: Damage): unknown {
  let count = 0;
  const visit = (child: unknown): unknown => {
    if (count++ === at) return value;
    if (Array.isArray(child)) return child.map(visit);
    if (typeof child !== 'object' || child === null) return child;
    return Object.fromEntries(Object.entries(child).map(([key, inner]) => [key, visit(inner)]));
  };
  return visit(document);
}

function damageEvent(event: string, what: Damage): string {
  return event.replace(
    /data: (\{.*\})/,
    (_, json: string) => `data: ${JSON.stringify(damage(JSON.parse(json), what))}`,
  );
}

const damages = fc.record({ at: fc.nat(40), value: fc.oneof(fc.constant(undefined), fc.jsonValue({ maxDepth: 1 })) });

const bodies = fc.record({
  path: fc.constantFrom(...PATHS),
  isStreamed: fc.boolean(),
  damaged: damages,
  eventAt: fc.nat(12),
  cutAt: fc.option(fc.nat(900), { nil: undefined }),
});

function bodyOf({
  path,
  isStreamed,
  damaged,
  eventAt,
  cutAt,
}: typeof bodies extends fc.Arbitrary<infer T> ? T : never): string {
  if (!isStreamed) return (JSON.stringify(damage(path.format.whole(served), damaged)) ?? '').slice(0, cutAt);
  const { events, ending } = path.format.stream(served);
  const all = [...events, ...ending];
  return all
    .map((event, at) => (at === eventAt % all.length ? damageEvent(event, damaged) : event))
    .join('')
    .slice(0, cutAt);
}

test('[model.4] whatever is damaged in a reply, the outcome is a reply that can be stored, or MODEL', async () => {
  const seen = { replies: 0, failures: 0 };
  await fc.assert(
    fc.asyncProperty(bodies, async (plan) => {
      const type = plan.isStreamed ? 'text/event-stream' : 'application/json';
      const answer: typeof fetch = async () => new Response(bodyOf(plan), { headers: { 'content-type': type } });
      const config = { ...plan.path.config, retry: { maxAttempts: 1 } };
      const model = buildModel(config, { env: { OPENAI_API_KEY: 'k' }, fetch: answer });
      const call = plan.isStreamed ? { onText: () => undefined } : {};
      const outcome = await model.reply(REQUEST, call).catch((error: unknown) => error);
      if (hasErrorCode(outcome, 'MODEL')) {
        seen.failures++;
        return;
      }
      const reply = outcome as ModelReply;
      expect(JSON.parse(JSON.stringify(reply))).toEqual(reply);
      expect(typeof reply.text).toBe('string');
      expect(Number.isFinite(reply.usage.totalTokens)).toBe(true);
      expect(reply.messages.every(({ role }) => role === 'assistant')).toBe(true);
      seen.replies++;
    }),
    { numRuns: 400 },
  );
  expect(seen.replies, 'replies that were read').toBeGreaterThan(20);
  expect(seen.failures, 'replies that could not be').toBeGreaterThan(20);
});
