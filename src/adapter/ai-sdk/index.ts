/** AI SDK 6 and 7: recorded model calls, runs that go on after a crash, chats with branches. */

export type { ChatStore } from './chat-store.ts';
export { chatStore } from './chat-store.ts';
export { durable } from './durable.ts';
export type { DurableState } from './durable-run.ts';
export { recorded } from './recorded.ts';
