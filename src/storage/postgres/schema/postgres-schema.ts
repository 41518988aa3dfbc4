import { FUNCTIONS } from './schema-functions.ts';

/** The setting that says whose rows a transaction may see; local to each transaction. */
export const TENANT_SETTING = 'savestate.tenant';

/** Tables that hold rows of tenants. Each is keyed by tenant first, and guarded by row-level security. */
const TENANT_TABLES = ['session', 'chunk', 'checkpoint', 'ref', 'effect'] as const;

/** Names compare byte by byte, whatever the language of the database. */
const NAME = 'text COLLATE "C"';

/** The transaction that writes a row: by it one finds what was committed after a snapshot was taken. */
const TRANSACTION = 'pg_current_xact_id()::text::bigint';

/**
 * What a migration runs, in order, in one transaction with its version mark.
 *
 * `stored` is the transaction that stored a checkpoint, or that last brought a chunk: watching and collecting stand on it.
 * `due` repeats the target of refs of that kind, so that moving a branch touches no index. There are no checks and no generated
 * columns: PostgreSQL parses them again in every statement, which doubled the price of a commit. That no tenant is empty is up to
 * the policies. A digest is 32 bytes; refs are digests one after the other. Texts that PostgreSQL cannot take are escaped (sql-codec).
 */
const TABLES: readonly string[] = [
  `CREATE TABLE {s}.session(tenant ${NAME} NOT NULL, name ${NAME} NOT NULL, PRIMARY KEY (tenant, name))`,
  `CREATE TABLE {s}.chunk(tenant ${NAME} NOT NULL, digest bytea NOT NULL, stored bigint NOT NULL DEFAULT ${TRANSACTION}, refs bytea, text text NOT NULL, PRIMARY KEY (tenant, digest))`,
  `CREATE TABLE {s}.checkpoint(tenant ${NAME} NOT NULL, id ${NAME} NOT NULL, session ${NAME} NOT NULL, deleted boolean NOT NULL DEFAULT false, stored bigint NOT NULL DEFAULT ${TRANSACTION}, timestamp_ms double precision NOT NULL, branch ${NAME}, type ${NAME}, status ${NAME}, agent ${NAME}, user_id ${NAME}, idempotency ${NAME}, mark text, digest bytea NOT NULL, root_refs bytea, body text NOT NULL, root_text text, PRIMARY KEY (tenant, id))`,
  'CREATE INDEX checkpoint_session ON {s}.checkpoint(tenant, session, id)',
  'CREATE INDEX checkpoint_user ON {s}.checkpoint(tenant, user_id, id) WHERE user_id IS NOT NULL',
  'CREATE INDEX checkpoint_agent ON {s}.checkpoint(tenant, agent, id) WHERE agent IS NOT NULL',
  'CREATE UNIQUE INDEX checkpoint_idempotency ON {s}.checkpoint(tenant, session, idempotency) WHERE idempotency IS NOT NULL',
  'CREATE INDEX checkpoint_stored ON {s}.checkpoint USING brin(stored) WITH (pages_per_range = 16, autosummarize = on)',
  `CREATE TABLE {s}.ref(tenant ${NAME} NOT NULL, session ${NAME} NOT NULL, kind ${NAME} NOT NULL, name ${NAME} NOT NULL, target ${NAME} NOT NULL, mark text NOT NULL, due ${NAME}, PRIMARY KEY (tenant, session, kind, name)) WITH (fillfactor = 50)`,
  'CREATE INDEX ref_due ON {s}.ref(tenant, due) WHERE due IS NOT NULL',
  `CREATE TABLE {s}.effect(tenant ${NAME} NOT NULL, session ${NAME} NOT NULL, branch ${NAME} NOT NULL, ordinal bigint NOT NULL, mark text NOT NULL, digest bytea NOT NULL, refs bytea, body text NOT NULL, text text, PRIMARY KEY (tenant, session, branch, ordinal)) WITH (fillfactor = 80)`,
];

/** `FORCE` binds the owner too. A setting that is missing raises an error; an empty one, which a transaction leaves behind, fits nothing. */
const policiesOf = (table: string): string[] => [
  `ALTER TABLE {s}.${table} ENABLE ROW LEVEL SECURITY`,
  `ALTER TABLE {s}.${table} FORCE ROW LEVEL SECURITY`,
  `CREATE POLICY own_tenant ON {s}.${table} USING (tenant = nullif(current_setting('${TENANT_SETTING}'), ''))`,
];

/**
 * The statements that lead from each version to the next; the first one starts from nothing. Versions 2 to 6 changed functions only, which
 * are then made as they are now. `{s}` stands for the schema's quoted name.
 */
export const MIGRATIONS: readonly (readonly string[])[] = [
  [...TABLES, ...TENANT_TABLES.flatMap(policiesOf)],
  [],
  [],
  [],
  [],
  FUNCTIONS,
];

/** Grows with every change that an older release could not use. */
export const SCHEMA_VERSION = MIGRATIONS.length;

/** What the role of the application may do: use rows, and own nothing. */
export const GRANTS: readonly string[] = [
  'GRANT USAGE ON SCHEMA {s} TO {role}',
  `GRANT SELECT, INSERT, UPDATE, DELETE ON ${TENANT_TABLES.map((table) => `{s}.${table}`).join(', ')} TO {role}`,
  'GRANT SELECT ON {s}.version TO {role}',
  'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {s} TO {role}',
];
