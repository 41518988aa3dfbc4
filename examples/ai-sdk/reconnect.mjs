// A client loses its connection in the middle of an answer and gets all of it from another server. No Redis, and no model is called.
// node examples/ai-sdk/reconnect.mjs
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { DefaultChatTransport, streamText } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';
import { SqliteCheckpointStorage } from 'savestate';
import { resumableStreams } from 'savestate/ai-sdk';

const folder = mkdtempSync(join(tmpdir(), 'savestate-reconnect-'));
const open = () => new SqliteCheckpointStorage({ path: join(folder, 'streams.db') });
const [storage, otherStorage] = [open(), open()];
const parts = [
  { type: 'text-start', id: 't' },
  ...['Your ', 'order ', 'left ', 'yesterday.'].map((delta) => ({ type: 'text-delta', id: 't', delta })),
  { type: 'text-end', id: 't' },
  { type: 'finish', finishReason: { unified: 'stop', raw: undefined }, usage: { inputTokens: {}, outputTokens: {} } },
];

/** Says two words and the rest when it is told to. */
let goOn;
const told = new Promise((resolve) => {
  goOn = resolve;
});
const model = new MockLanguageModelV3({
  doStream: async () => ({
    stream: new ReadableStream({
      async start(controller) {
        for (const [at, part] of parts.entries()) {
          if (at === 3) await told;
          controller.enqueue(part);
        }
        controller.close();
      },
    }),
  }),
});

const streams = resumableStreams(storage);
const first = await serve(async () => {
  const { signal, record } = await streams.begin('chat-1');
  const result = streamText({ model, prompt: 'Where is my order?', abortSignal: signal });
  return result.toUIMessageStreamResponse({ consumeSseStream: record });
});
const second = await serve(() => resumableStreams(otherStorage).resume('chat-1'));

console.log('1. A client asks, and its connection is cut in the middle of the answer.');
const { body } = await fetch(first.url, { method: 'POST' });
let seen = '';
for await (const bytes of body) {
  seen += Buffer.from(bytes);
  if (seen.includes('order ')) break; // hangs up
}

console.log('2. It reconnects to another server, and gets the answer from its beginning to its end.');
const transport = new DefaultChatTransport({ api: second.url });
let text = '';
for await (const part of await transport.reconnectToStream({ chatId: 'chat-1' })) {
  text += part.delta ?? '';
  if (part.delta === 'order ') goOn();
}
console.log(`   ${text}`);

console.log('3. Who comes later finds nothing to wait for.');
console.log(`   ${await transport.reconnectToStream({ chatId: 'chat-1' })}`);

for (const { server } of [first, second]) {
  server.closeAllConnections();
  server.close();
}
await Promise.all([storage.close(), otherStorage.close()]);
rmSync(folder, { recursive: true });

async function serve(answer) {
  const server = createServer(async (_, reply) => {
    const response = await answer();
    reply.writeHead(response.status, Object.fromEntries(response.headers));
    if (response.body === null) reply.end();
    else Readable.fromWeb(response.body).pipe(reply);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, url: `http://127.0.0.1:${server.address().port}` };
}
