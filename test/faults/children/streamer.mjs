// Streams an answer without an end, and records it for clients that reconnect, until it is killed.
import { setTimeout as sleep } from 'node:timers/promises';
import { resumableStreams } from '../../../dist/adapter/ai-sdk/index.js';
import { openAnyStorage, say, told } from './common.mjs';

say({ ready: true });
const streams = resumableStreams(await openAnyStorage(told().storage));
const { record } = await streams.begin('chat');
say({ begun: true });
let n = 0;
const pull = async (controller) => {
  await sleep(2);
  controller.enqueue(`data: ${JSON.stringify({ type: 'text-delta', id: 't', delta: `${n++} ` })}\n\n`);
};
await record({ stream: new ReadableStream({ pull }) });
