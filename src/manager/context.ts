import type { SessionId } from '../core/id.ts';
import type { StateCodec } from '../core/state-codec.ts';
import type { ChunkStorage } from '../storage/contract.ts';
import type { Events } from './events.ts';
import type { Migrations } from './migrations.ts';
import type { ManagerPorts } from './ports.ts';
import type { Repository } from './repository.ts';
import type { ShadowBudget } from './shadow-budget.ts';

/** What the parts of one manager share. */
export type ManagerContext = {
  readonly storage: ChunkStorage;
  readonly repository: Repository;
  readonly codec: StateCodec;
  /** Leaves no secrets out: for what was redacted before, and for copies that stay in this process. */
  readonly plainCodec: StateCodec;
  readonly events: Events;
  readonly ports: ManagerPorts;
  readonly shadows: ShadowBudget;
  readonly migrations: Migrations;
  /** Called with each session that this manager deleted, by those who remember something of it. */
  readonly endings: Set<(sessionId: SessionId) => void>;
};
