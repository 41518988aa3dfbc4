import { filledString, flag, type OptionChecks, oneOf, wholeFrom } from '../../../core/options.ts';
import { SERVER_CHECKS, type ServerOptions } from '../../database/server-options.ts';

/** How a PostgresCheckpointStorage is opened. */
export type PostgresStorageOptions = ServerOptions & {
  /** Whose data this is; default `default`. Nothing is shared between tenants, not even equal chunks. */
  readonly tenant?: string | undefined;
  /** `auto` (default) makes or updates the tables at the first use; `never` leaves that to `migratePostgres`. */
  readonly migrate?: 'auto' | 'never' | undefined;
  /** The role that statements run as when the login could see more than its tenant; default `<schema>_app`. */
  readonly appRole?: string | undefined;
  readonly maxCheckpointsPerUser?: number | undefined;
  /** Text that commits may hold in memory while they wait for the server; beyond it they are refused. Default 64 MiB. */
  readonly maxQueuedBytes?: number | undefined;
  /** `false` for a pooler that cannot keep prepared statements. */
  readonly prepare?: boolean | undefined;
};

/** What each of the options accepts. */
export const POSTGRES_CHECKS = {
  ...SERVER_CHECKS,
  migrate: oneOf('auto', 'never'),
  appRole: filledString,
  maxCheckpointsPerUser: wholeFrom(1),
  maxQueuedBytes: wholeFrom(1),
  prepare: flag,
} satisfies OptionChecks<PostgresStorageOptions>;
