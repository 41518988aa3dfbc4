export type { StreamEvent } from './client.ts';
export { type Client, type ClientOptions, createClient, type EventsRequest, ResponseError } from './client.ts';
export type { ReplyOf, RequestOf } from './types.ts';
