/** AI SDK 6 and 7: recorded model calls, runs that go on after a crash, chats with branches, streams that clients reconnect to. */

export { type ChatStore, chatStore } from './chat-store.ts';
export { type DurableState, durable } from './durable-run.ts';
export { recorded } from './model-recorder.ts';
export { type ActiveStream, type ResumableStreams, resumableStreams } from './resumable-streams.ts';
