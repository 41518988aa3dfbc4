import type { z } from 'zod';
import type { CheckpointManager } from '../../manager/checkpoint-manager.ts';
import type { Engine } from '../../manager/engine/engine.ts';
import type { Memory } from '../../memory/memory.ts';
import type { Watch } from '../../view/history.ts';
import type { DeepReadonly } from '../../view/shapes.ts';
import type { Fields } from '../contract/route.ts';
import type { Routes } from '../contract/routes.ts';
import type { Cache, States } from './cache.ts';
import type { TeamRuns } from './team-runs.ts';

/** What a session weighs and used. */
export type SessionFigures = DeepReadonly<z.input<Routes['GET /v1/sessions/{session}/figures']['reply']>>;

/** What handlers work with. */
export type ServerParts = {
  readonly manager: CheckpointManager;
  readonly memory: Memory | undefined;
  readonly isReadOnly: boolean;
  /** What is said about where the storage is. */
  readonly label: string | undefined;
  readonly address: string | undefined;
  readonly version: string;
  readonly states: States;
  /** What took long to find out of sessions, by their ETags. */
  readonly figures: Cache<SessionFigures>;
  /** What is run from the page. */
  readonly teamRuns: TeamRuns;
};

type Values<Given> = Given extends Fields
  ? { readonly [Field in keyof Given]: z.output<Given[Field]> }
  : Record<never, never>;

type BodyOf<Row> = Row extends { readonly body: infer Body extends z.ZodType }
  ? z.output<Body>
  : Row extends { readonly takes: 'lines' }
    ? AsyncIterable<Uint8Array>
    : undefined;

/** One request, checked. */
export type Call<K extends keyof Routes> = ServerParts & {
  readonly params: Values<Routes[K] extends { readonly params: infer Given } ? Given : undefined>;
  readonly query: Values<Routes[K] extends { readonly query: infer Given } ? Given : undefined>;
  readonly body: BodyOf<Routes[K]>;
  /** What changes are made with: it refuses them if the session is not what the client saw. */
  readonly engine: Engine;
  /** Aborted when the client is gone, or the time is over. */
  readonly signal: AbortSignal;
  /** Goes through long lists; ends with the signal. */
  readonly watch: Watch;
};

type Answer<K extends keyof Routes> = Routes[K] extends { readonly reply: infer Reply extends z.ZodType }
  ? DeepReadonly<z.input<Reply>>
  : AsyncIterable<string>;

/** What answers the routes; those of events are answered elsewhere. */
export type Handlers = {
  readonly [K in Exclude<keyof Routes, 'GET /v1/events' | 'POST /v1/access'>]: (call: Call<K>) => Promise<Answer<K>>;
};
