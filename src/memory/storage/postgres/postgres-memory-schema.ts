/** The version of the tables. */
export const SCHEMA_VERSION = 2;

/** Names compare byte by byte, whatever the language of the database. */
const NAME = 'text COLLATE "C"';

/**
 * The tables of memories on a server; `{s}` stands for the schema. Every row belongs to a tenant.
 */
export const SCHEMA: readonly string[] = [
  `CREATE TABLE {s}.memory_event(
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant ${NAME} NOT NULL, memory_id ${NAME} NOT NULL, operation ${NAME} NOT NULL,
    user_id ${NAME}, agent_id ${NAME}, run_id ${NAME}, session_id ${NAME}, hash ${NAME}, subject ${NAME}, slot ${NAME}, kind ${NAME},
    key ${NAME}, at_ms double precision NOT NULL, content text, previous text, body text NOT NULL)`,
  'CREATE INDEX memory_event_memory ON {s}.memory_event(tenant, memory_id)',
  'CREATE INDEX memory_event_user ON {s}.memory_event(tenant, user_id, seq) WHERE user_id IS NOT NULL',
  'CREATE INDEX memory_event_agent ON {s}.memory_event(tenant, agent_id, seq) WHERE agent_id IS NOT NULL',
  'CREATE INDEX memory_event_run ON {s}.memory_event(tenant, run_id, seq) WHERE run_id IS NOT NULL',
  'CREATE INDEX memory_event_session ON {s}.memory_event(tenant, session_id, seq) WHERE session_id IS NOT NULL',
  'CREATE INDEX memory_event_hash ON {s}.memory_event(tenant, hash) WHERE hash IS NOT NULL',
  "CREATE INDEX memory_event_subject ON {s}.memory_event(tenant, subject, kind) WHERE kind <> 'episode'",
  'CREATE UNIQUE INDEX memory_event_key ON {s}.memory_event(tenant, key) WHERE key IS NOT NULL',
  `CREATE TABLE {s}.memory_vector(position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, tenant ${NAME} NOT NULL, model ${NAME} NOT NULL,
    seq bigint NOT NULL REFERENCES {s}.memory_event ON DELETE CASCADE, vector bytea NOT NULL, UNIQUE (tenant, model, seq))`,
  `CREATE TABLE {s}.memory_epoch(tenant ${NAME} PRIMARY KEY, epoch bigint NOT NULL)`,
  `CREATE VIEW {s}.memory_history AS SELECT tenant, seq AS id, memory_id, previous AS previous_value,
    CASE WHEN operation <> 'RETRACT' THEN content END AS new_value,
    CASE operation WHEN 'RETRACT' THEN 'DELETE' ELSE operation END AS action,
    to_timestamp(at_ms / 1000) AS created_at, to_timestamp(at_ms / 1000) AS updated_at,
    operation IN ('RETRACT', 'PURGE') AS is_deleted, body::json ->> 'actor' AS actor_id, body::json -> 'fields' ->> 'trust' AS role
    FROM {s}.memory_event WHERE operation <> 'EXTRACT'`,
  'CREATE TABLE {s}.memory_version(version integer NOT NULL)',
  `INSERT INTO {s}.memory_version VALUES (${SCHEMA_VERSION})`,
];

/** What brings tables of an older version to the next one. */
export const MIGRATIONS: ReadonlyMap<number, readonly string[]> = new Map([
  [1, ['ALTER TABLE {s}.memory_event DROP COLUMN terms', 'UPDATE {s}.memory_version SET version = 2']],
]);
