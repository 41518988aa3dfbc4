export { type Client, type ClientOptions, createClient, type EventsRequest, ResponseError } from './client.ts';
export type { StreamEvent } from './read-events.ts';
export type { ReplyOf, RequestOf } from './types.ts';
