import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { expect, onTestFinished, test } from 'vitest';
import { partsOf, SDKS } from '../../../test/support/ai-sdk.ts';
import { describeOn } from '../../../test/support/later.ts';
import { STORAGES } from '../../../test/support/storages.ts';
import type { SessionId } from '../../core/record/id.ts';
import type { SetTimer } from '../../core/time/timer.ts';
import { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import { nameHolder } from '../../manager/lease/lease-refs.ts';
import type { ChunkStorage } from '../../storage/contract.ts';
import { InMemoryCheckpointStorage } from '../../storage/memory/memory-storage.ts';
import { openAdapterEngine } from '../adapter-storage.ts';
import { Transcripts } from '../transcript/transcripts.ts';
import { chatStore } from './chat-store.ts';
import { resumableStreams } from './resumable-streams.ts';

type Sdk = (typeof SDKS)[number][1];
type Scripted = (typeof SDKS)[number][2];
type Handler = (request: IncomingMessage) => Promise<Response>;

const ANSWER = 'one two three four';

/** A server of one route; its connections are real. */
async function serve(handle: Handler): Promise<string> {
  const server = createServer((request: IncomingMessage, reply: ServerResponse) => {
    void handle(request).then(({ status, headers, body }) => {
      reply.writeHead(status, Object.fromEntries(headers));
      if (body === null) reply.end();
      else
        Readable.fromWeb(body as never)
          .on('error', () => undefined)
          .pipe(reply);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A model that says two words, waits until it may go on or is aborted, and says the rest. */
function halting(scripted: Scripted) {
  let goOn: () => void = () => undefined;
  const open = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const model = scripted(ANSWER);
  const parts = partsOf(ANSWER);
  model.doStream = async ({ abortSignal }) => {
    const aborted = new Promise<void>((_, reject) => {
      abortSignal?.addEventListener('abort', () => reject(abortSignal.reason));
    });
    let at = 0;
    const pull = async (controller: ReadableStreamDefaultController) => {
      if (at === 4) await Promise.race([open, aborted]);
      if (at === parts.length) controller.close();
      else controller.enqueue(parts[at++]);
    };
    return { stream: new ReadableStream({ pull }, { highWaterMark: 0 }) as never };
  };
  return { model, goOn };
}

/** Two servers on one storage: one makes answers, the other one only has the storage in common with it. */
async function setUp(sdk: Sdk, scripted: Scripted, [storage, other]: readonly [ChunkStorage, ChunkStorage]) {
  const { model, goOn } = halting(scripted);
  const [streams, elsewhere] = [resumableStreams(storage), resumableStreams(other)];
  const recorded: Promise<void>[] = [];
  const maker = await serve(async () => {
    const active = await streams.begin('chat/1');
    const result = sdk.streamText({ model, prompt: 'Count.', abortSignal: active.signal });
    return result.toUIMessageStreamResponse({
      consumeSseStream: (options) => void recorded.push(active.record(options)),
    });
  });
  const other1 = await serve(() => elsewhere.resume('chat/1'));
  const transport = new sdk.DefaultChatTransport({ api: other1 });
  const reconnect = () => transport.reconnectToStream({ chatId: 'chat/1' });
  return { maker, reconnect, goOn, elsewhere, done: () => Promise.all(recorded) };
}

/** Asks for an answer and hangs up in the middle of it. */
async function askAndHangUp(url: string): Promise<void> {
  const hangUp = new AbortController();
  const { body } = await fetch(url, { method: 'POST', signal: hangUp.signal });
  const decoder = new TextDecoder();
  let seen = '';
  for await (const bytes of body as unknown as AsyncIterable<Uint8Array>) {
    seen += decoder.decode(bytes);
    if (seen.includes('two')) break;
  }
  hangUp.abort();
}

type Part = { readonly type: string; readonly delta?: string; readonly errorText?: string };

async function readParts(stream: unknown, onPart: (part: Part) => void = () => undefined): Promise<Part[]> {
  const parts: Part[] = [];
  for await (const part of stream as AsyncIterable<Part>) {
    parts.push(part);
    onPart(part);
  }
  return parts;
}

const textOf = (parts: readonly Part[]) => parts.map(({ delta = '' }) => delta).join('');

describeOn(STORAGES.filter(([name]) => name !== 'file'))('streams in %s', (_, create) => {
  test.each(SDKS)(
    'with AI SDK %s a client that was cut off gets all of the answer',
    async (_version, sdk, scripted) => {
      const { storage, reopen } = create();
      const { maker, reconnect, goOn, done } = await setUp(sdk, scripted, [storage, reopen?.() ?? storage]);
      expect(await reconnect()).toBeNull();
      await askAndHangUp(maker);
      const again = await reconnect();
      const parts = await readParts(again, ({ delta }) => {
        if (delta?.includes('two') === true) goOn(); // it goes on while it is followed
      });
      expect(textOf(parts)).toBe(ANSWER);
      expect(parts[0]?.type).toBe('start');
      expect(parts.at(-1)?.type).toBe('finish');
      await done();
      expect(await reconnect()).toBeNull();
    },
  );

  test('an answer that somebody stops elsewhere ends for all', async () => {
    const [[, sdk, scripted] = []] = SDKS;
    if (sdk === undefined || scripted === undefined) throw new Error('There is no SDK.');
    const { storage, reopen } = create();
    const { maker, reconnect, elsewhere, done } = await setUp(sdk, scripted, [storage, reopen?.() ?? storage]);
    expect(await elsewhere.stop('chat/1')).toBe(false);
    await askAndHangUp(maker);
    const again = await reconnect();
    expect(await elsewhere.stop('chat/1')).toBe(true);
    const parts = await readParts(again);
    expect(textOf(parts)).toBe('one two ');
    expect(parts.at(-1)?.type).toBe('abort');
    await done();
    expect(await reconnect()).toBeNull();
  });
});

const SESSION = 'ai-sdk/c/stream' as SessionId;
const atOnce: SetTimer = (run) => {
  setImmediate(run);
  return () => undefined;
};
const never = () => new ReadableStream<string>({});
const textStream = (...texts: string[]) => ReadableStream.from(texts) as ReadableStream<string>;

test.each([
  ['of a dead process', nameHolder('a').replace(/\/\d+-/, '/999999999-')],
  ['of a machine that is not heard of any more', nameHolder('b').replace('@', '@elsewhere-')],
])('a stream %s ends with an error, each time', async (_, holder) => {
  const manager = new CheckpointManager({ storage: new InMemoryCheckpointStorage(), setTimer: atOnce });
  const transcript = new Transcripts<string>(openAdapterEngine({ manager }), 'ai-sdk-stream').open(SESSION);
  const extra = { holder, beat: 3, status: 'open' };
  const edit = () => ({ keep: 0, add: ['data: {"type":"start"}\n\n'], extra });
  await transcript.change({ trigger: 'stream_written', about: undefined, edit });
  const streams = resumableStreams({ manager });
  for (let look = 0; look < 2; look++) {
    const text = await (await streams.resume('c')).text();
    expect(text).toMatch(/^data: {"type":"start"}\n\ndata: {"type":"error","errorText":"The process that wrote this/);
    expect(text.endsWith('data: [DONE]\n\n')).toBe(true);
  }
  expect(await streams.delete('c')).toBe(true);
});

test('the next answer of a chat replaces the one before, also if that is still made', async () => {
  const storage = new InMemoryCheckpointStorage();
  const streams = resumableStreams(storage);
  const first = await streams.begin('c');
  const recorded = first.record({ stream: never() });
  const followed = (await streams.resume('c')).text();
  const second = await streams.begin('c');
  await recorded; // it notices with its next sign of life
  expect(first.signal.aborted).toBe(false);
  expect(await followed).toContain('Another answer was begun in this chat');
  await second.record({ stream: textStream('data: [DONE]\n\n') });
  expect((await streams.resume('c')).status).toBe(204);
  const { findings } = await new CheckpointManager({ storage }).verify();
  expect(findings).toEqual([]);
  await chatStore(storage).delete('c');
  expect(await storage.listSessions({ limit: 9 })).toEqual([]);
});

test('a stream that breaks ends with an error; one that cannot be stored is aborted', async () => {
  const storage = new InMemoryCheckpointStorage();
  const streams = resumableStreams(storage);
  const broken = await streams.begin('c');
  await broken.record({ stream: new ReadableStream({ start: (it) => it.error(new Error('cut')) }) });
  expect(await (await streams.resume('c')).text()).toContain('This answer could not be completed. Ask again.');
  const unstored = await streams.begin('c');
  await storage.close();
  await unstored.record({ stream: textStream('data: {"type":"start"}\n\n') });
  expect(unstored.signal.reason).toMatchObject({ code: 'CLOSED' });
});

test('what is no chat id, or no storage, is refused with a sentence; so is no stream', async () => {
  const streams = resumableStreams(new InMemoryCheckpointStorage());
  const { record } = await streams.begin('c');
  for (const given of [undefined, {}, { stream: 'text' }])
    expect(() => record(given as never)).toThrow('What is given to record() must be an object with a stream');
  await expect(streams.begin('')).rejects.toThrow('A chat id must be a string of 1 to');
  expect(() => resumableStreams('chats.db' as never)).toThrow('found "chats.db"');
});
