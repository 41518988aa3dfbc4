import { MAX_STUB_BYTES, STUB_START } from '../../../core/tree/object-stub.ts';

/** Whether the text of a chunk lies in an object store. Long texts are not read for it. */
export const isStub = (row: string): string =>
  `(octet_length(${row}.text) < ${MAX_STUB_BYTES} AND ${row}.text LIKE '${STUB_START}%')`;

/** The text of a chunk that is brought again. What lies in an object store is stored here, too, if it is brought whole. */
const WHOLE_TEXT = `CASE WHEN ${isStub('chunk')} AND excluded.text NOT LIKE '${STUB_START}%' THEN excluded.text ELSE chunk.text END`;

/** What `commit_batch` throws when it undoes a batch because one commit was refused. */
const BATCH_REFUSED = 'SV001';

/**
 * A commit is one call of one function, so that it is one round trip and one transaction on every connection, pooled or not.
 * The functions run with the rights of the caller, and row-level security applies inside them.
 *
 * Each takes the locks of its sessions first, sorted, and writes chunks last, sorted, so that batches of different processes never wait
 * for each other in a circle. Under its session's lock nothing that a commit checked can change before it is done. What it
 * requires of other sessions it locks by row.
 *
 * Speed: what a function can compute without a query (`v := f()`) costs a hundredth of one with (`PERFORM f()`), and a plain INSERT or
 * UPDATE half of one that is fed by a set. So the usual commit is one UPDATE of its branch and two INSERTs.
 */

/**
 * Returns `stored`, or why this commit is refused. Nothing is written before everything was checked: also whether the parent that a
 * checkpoint builds on is that very one, and not a rewritten one with its id.
 */
const COMMIT_ONE = `
CREATE OR REPLACE FUNCTION {s}.commit_one(p_tenant text, p_commit jsonb) RETURNS jsonb LANGUAGE plpgsql AS $body$
DECLARE
  v_session text := p_commit->>'session';
  v_checkpoint jsonb := p_commit->'checkpoint';
  v_refs jsonb := p_commit->'refs';
  v_change jsonb;
  v_found text;
  v_is_known boolean := false;
BEGIN
  IF v_checkpoint ? 'key' THEN
    SELECT id INTO v_found FROM {s}.checkpoint
      WHERE tenant = p_tenant AND session = v_session AND idempotency = v_checkpoint->>'key';
    IF FOUND THEN RETURN jsonb_build_object('status', 'duplicate', 'id', v_found); END IF;
  END IF;
  IF p_commit ? 'requires' THEN
    PERFORM FROM {s}.checkpoint WHERE tenant = p_tenant AND session <> v_session
      AND id IN (SELECT jsonb_array_elements_text(p_commit->'requires')) FOR SHARE;
    SELECT wanted INTO v_found FROM jsonb_array_elements_text(p_commit->'requires') AS wanted
      WHERE NOT EXISTS (SELECT FROM {s}.checkpoint WHERE tenant = p_tenant AND id = wanted AND NOT deleted) LIMIT 1;
    IF FOUND THEN RETURN jsonb_build_object('status', 'missing', 'id', v_found); END IF;
  END IF;
  IF p_commit ? 'parent' THEN
    SELECT encode(digest, 'hex') INTO v_found FROM {s}.checkpoint
      WHERE tenant = p_tenant AND id = p_commit->'parent'->>'id' AND NOT deleted;
    IF v_found IS DISTINCT FROM p_commit->'parent'->>'digest' THEN
      RETURN jsonb_build_object('status', CASE WHEN v_found IS NULL THEN 'missing' ELSE 'rewritten' END, 'id', p_commit->'parent'->>'id');
    END IF;
  END IF;
  FOR v_at IN 0 .. jsonb_array_length(v_refs) - 1 LOOP
    v_change := v_refs->v_at;
    SELECT target INTO v_found FROM {s}.ref
      WHERE tenant = p_tenant AND session = v_session AND kind = v_change->>'kind' AND name = v_change->>'name';
    IF v_change ? 'expect' AND v_change->>'expect' IS DISTINCT FROM v_found THEN
      RETURN jsonb_build_object('status', 'moved', 'ref', v_at, 'found', v_found);
    END IF;
    v_is_known := v_is_known OR v_found IS NOT NULL;
  END LOOP;
  FOR v_at IN 0 .. coalesce(jsonb_array_length(p_commit->'expects'), 0) - 1 LOOP
    v_change := p_commit->'expects'->v_at;
    SELECT encode(digest, 'hex') INTO v_found FROM {s}.effect WHERE tenant = p_tenant AND session = v_session
      AND branch = v_change->>'branch' AND ordinal = (v_change->>'ordinal')::bigint;
    IF v_change->>'digest' IS DISTINCT FROM v_found THEN
      RETURN jsonb_build_object('status', 'replaced', 'effect', v_change->'at');
    END IF;
  END LOOP;
  IF v_checkpoint IS NOT NULL THEN
    INSERT INTO {s}.checkpoint(tenant, id, session, timestamp_ms, branch, type, status, agent, user_id, idempotency, digest, root_refs, body, root_text)
      VALUES (p_tenant, v_checkpoint->>'id', v_session, (v_checkpoint->>'timestamp')::double precision, v_checkpoint->>'branch',
        v_checkpoint->>'type', v_checkpoint->>'status', v_checkpoint->>'agent', v_checkpoint->>'user', v_checkpoint->>'key',
        decode(v_checkpoint->>'digest', 'hex'), decode(v_checkpoint->>'refs', 'hex'), v_checkpoint->>'body', v_checkpoint->>'text')
      ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN jsonb_build_object('status', 'taken'); END IF;
  END IF;
  IF NOT v_is_known THEN INSERT INTO {s}.session VALUES (p_tenant, v_session) ON CONFLICT DO NOTHING; END IF;
  FOR v_at IN 0 .. jsonb_array_length(v_refs) - 1 LOOP
    v_change := v_refs->v_at;
    IF v_change->>'target' IS NULL THEN
      DELETE FROM {s}.ref WHERE tenant = p_tenant AND session = v_session AND kind = v_change->>'kind' AND name = v_change->>'name';
    ELSIF v_change->>'target' = v_change->>'expect' THEN
      CONTINUE; -- a check
    ELSIF v_change->>'expect' IS NOT NULL THEN
      UPDATE {s}.ref SET target = v_change->>'target', mark = v_change->>'mark', due = v_change->>'due'
        WHERE tenant = p_tenant AND session = v_session AND kind = v_change->>'kind' AND name = v_change->>'name';
    ELSE
      INSERT INTO {s}.ref(tenant, session, kind, name, target, mark, due)
        VALUES (p_tenant, v_session, v_change->>'kind', v_change->>'name', v_change->>'target', v_change->>'mark', v_change->>'due')
        ON CONFLICT (tenant, session, kind, name) DO UPDATE SET target = excluded.target, mark = excluded.mark, due = excluded.due;
    END IF;
  END LOOP;
  RETURN '{"status": "stored"}';
END $body$`;

/**
 * Applies a batch in order, as a whole. A single commit gets its verdict; if one of several is refused, all are undone by an error, and
 * the caller sends each alone. Chunks and effects come sorted and without repeats.
 */
const COMMIT_BATCH = `
CREATE OR REPLACE FUNCTION {s}.commit_batch(p_tenant text, p_role text, p_commits jsonb, p_digests text[], p_refs text[], p_texts text[], p_effects jsonb) RETURNS jsonb LANGUAGE plpgsql AS $body$
DECLARE
  v_done text;
  v_verdict jsonb;
BEGIN
  v_done := {s}.begin_commit(p_tenant, p_role);
  IF jsonb_array_length(p_commits) = 1 THEN
    v_done := pg_advisory_xact_lock({s}.lock_key(p_tenant, p_commits->0->>'session'));
  ELSE
    PERFORM {s}.lock_sessions(p_tenant, ARRAY(SELECT value->>'session' FROM jsonb_array_elements(p_commits)));
  END IF;
  FOR v_at IN 0 .. jsonb_array_length(p_commits) - 1 LOOP
    v_verdict := {s}.commit_one(p_tenant, p_commits->v_at);
    IF v_verdict->>'status' <> 'stored' THEN
      IF jsonb_array_length(p_commits) = 1 THEN RETURN v_verdict; END IF;
      RAISE EXCEPTION 'one commit of a batch was refused' USING ERRCODE = '${BATCH_REFUSED}';
    END IF;
  END LOOP;
  IF cardinality(p_digests) > 0 THEN
    INSERT INTO {s}.chunk(tenant, digest, refs, text)
      SELECT p_tenant, decode(c.digest, 'hex'), decode(c.refs, 'hex'), c.text
        FROM unnest(p_digests, p_refs, p_texts) AS c(digest, refs, text)
      ON CONFLICT (tenant, digest) DO UPDATE SET stored = excluded.stored, text = ${WHOLE_TEXT};
  END IF;
  IF p_effects IS NOT NULL THEN
    INSERT INTO {s}.effect(tenant, session, branch, ordinal, mark, digest, refs, body, text)
      SELECT p_tenant, e.session, e.branch, e.ordinal, e.mark, decode(e.digest, 'hex'), decode(e.refs, 'hex'), e.body, e.text
        FROM jsonb_to_recordset(p_effects) AS e(session text, branch text, ordinal bigint, mark text, digest text, refs text, body text, text text)
      ON CONFLICT (tenant, session, branch, ordinal) DO UPDATE SET mark = excluded.mark, digest = excluded.digest,
        refs = excluded.refs, body = excluded.body, text = excluded.text;
  END IF;
  v_done := {s}.tell_listeners(p_tenant);
  RETURN v_verdict;
END $body$`;

/** The lock of a session. Two names that share a number only wait for each other. */
const LOCK_KEY = `
CREATE OR REPLACE FUNCTION {s}.lock_key(p_tenant text, p_session text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $body$
  SELECT hashtextextended('{raw}' || chr(31) || p_tenant || chr(31) || p_session, 0)
$body$`;

/**
 * What every commit begins with. All of it is local to the transaction. Plans are kept: their statements are always alike.
 * No commit is relaxed: the server may crash while the process goes on, which then relies on what it was told.
 */
const BEGIN_COMMIT = `
CREATE OR REPLACE FUNCTION {s}.begin_commit(p_tenant text, p_role text) RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
  v_done text;
BEGIN
  v_done := set_config('savestate.tenant', p_tenant, true);
  v_done := set_config('plan_cache_mode', 'force_generic_plan', true);
  IF current_setting('synchronous_commit') = 'off' THEN v_done := set_config('synchronous_commit', 'on', true); END IF;
  IF p_role IS NOT NULL THEN v_done := set_config('role', p_role, true); END IF;
  RETURN v_done;
END $body$`;

/**
 * Notifying makes all commits of a database queue up, so it is done only while somebody listens. Listeners share a lock for as long as
 * they are connected; who can have it alone knows that there are none.
 */
const TELL_LISTENERS = `
CREATE OR REPLACE FUNCTION {s}.tell_listeners(p_tenant text) RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
  v_key bigint := {s}.listen_key(p_tenant);
BEGIN
  IF pg_try_advisory_lock(v_key) THEN RETURN pg_advisory_unlock(v_key); END IF;
  RETURN pg_notify({s}.channel(p_tenant), '');
END $body$`;

const LISTEN_KEY = `
CREATE OR REPLACE FUNCTION {s}.listen_key(p_tenant text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $body$
  SELECT hashtextextended('{raw}' || chr(31) || p_tenant, 1)
$body$`;

/** How a function for one plain commit begins: under the lock of its session, and the lease if there is one. */
const BEGIN_ONE = `DECLARE
  v_done text := {s}.begin_commit(p_tenant, p_role);
BEGIN
  v_done := pg_advisory_xact_lock({s}.lock_key(p_tenant, p_session));
  IF p_lease IS NOT NULL THEN
    PERFORM FROM {s}.ref WHERE tenant = p_tenant AND session = p_session AND kind = 'lease' AND name = p_branch AND target = p_lease;
    IF NOT FOUND THEN RETURN false; END IF;
  END IF;`;

/** How it ends. */
const END_ONE = `  FOR v_at IN 1 .. cardinality(p_digests) LOOP
    INSERT INTO {s}.chunk(tenant, digest, refs, text)
      VALUES (p_tenant, decode(p_digests[v_at], 'hex'), decode(p_refs[v_at], 'hex'), p_texts[v_at])
      ON CONFLICT (tenant, digest) DO UPDATE SET stored = excluded.stored, text = ${WHOLE_TEXT};
  END LOOP;
  v_done := {s}.tell_listeners(p_tenant);
  RETURN true;
END $body$`;

/**
 * The usual commit: a new checkpoint on top of the branch's head. False if it is not as expected; then nothing was written, and
 * `commit_batch` finds out why. `p_log` is how far the log of the branch goes, empty if it has none; `p_parent` is the digest of the head.
 * Null means that it does not matter.
 */
const SAVE_ONE = `
CREATE OR REPLACE FUNCTION {s}.save_one(p_tenant text, p_role text, p_session text, p_branch text, p_expect text, p_mark text, p_lease text, p_log text, p_parent text,
  p_id text, p_timestamp double precision, p_type text, p_status text, p_agent text, p_user text, p_key text, p_digest text,
  p_root_refs text, p_body text, p_root_text text, p_digests text[], p_refs text[], p_texts text[]) RETURNS boolean LANGUAGE plpgsql AS $body$
${BEGIN_ONE}
  IF p_log IS NOT NULL AND p_log <> coalesce((SELECT target FROM {s}.ref
      WHERE tenant = p_tenant AND session = p_session AND kind = 'log' AND name = p_branch), '') THEN
    RETURN false;
  END IF;
  UPDATE {s}.ref SET target = p_id, mark = p_mark
    WHERE tenant = p_tenant AND session = p_session AND kind = 'branch' AND name = p_branch AND target = p_expect
      AND (p_parent IS NULL OR EXISTS (SELECT FROM {s}.checkpoint AS head
        WHERE head.tenant = p_tenant AND head.id = p_expect AND head.digest = decode(p_parent, 'hex')));
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO {s}.checkpoint(tenant, id, session, timestamp_ms, branch, type, status, agent, user_id, idempotency, digest, root_refs, body, root_text)
    VALUES (p_tenant, p_id, p_session, p_timestamp, p_branch, p_type, p_status, p_agent, p_user, p_key,
      decode(p_digest, 'hex'), decode(p_root_refs, 'hex'), p_body, p_root_text);
${END_ONE}`;

/**
 * The begin of a step, which takes the next place in the log of its branch, or its end, which replaces the row whose digest is `p_expect`.
 * False, and an error for a place that is taken, mean what they mean for `save_one`. `p_head` is where the branch must be, empty if nowhere.
 */
const RECORD_ONE = `
CREATE OR REPLACE FUNCTION {s}.record_one(p_tenant text, p_role text, p_session text, p_branch text, p_lease text, p_head text, p_log text, p_next text, p_next_mark text,
  p_ordinal bigint, p_expect text, p_mark text, p_digest text, p_result_refs text, p_body text, p_text text,
  p_digests text[], p_refs text[], p_texts text[]) RETURNS boolean LANGUAGE plpgsql AS $body$
${BEGIN_ONE}
  IF p_head IS NOT NULL AND p_head <> coalesce((SELECT target FROM {s}.ref
      WHERE tenant = p_tenant AND session = p_session AND kind = 'branch' AND name = p_branch), '') THEN
    RETURN false;
  END IF;
  IF p_expect IS NULL THEN
    UPDATE {s}.ref SET target = p_next, mark = p_next_mark
      WHERE tenant = p_tenant AND session = p_session AND kind = 'log' AND name = p_branch AND target = p_log;
    IF NOT FOUND THEN RETURN false; END IF;
    INSERT INTO {s}.effect(tenant, session, branch, ordinal, mark, digest, refs, body, text)
      VALUES (p_tenant, p_session, p_branch, p_ordinal, p_mark, decode(p_digest, 'hex'), decode(p_result_refs, 'hex'), p_body, p_text);
  ELSE
    UPDATE {s}.effect SET mark = p_mark, digest = decode(p_digest, 'hex'), refs = decode(p_result_refs, 'hex'), body = p_body, text = p_text
      WHERE tenant = p_tenant AND session = p_session AND branch = p_branch AND ordinal = p_ordinal AND digest = decode(p_expect, 'hex');
    IF NOT FOUND THEN RETURN false; END IF;
  END IF;
${END_ONE}`;

/** In the order of their keys, whoever asks. */
const LOCK_SESSIONS = `
CREATE OR REPLACE FUNCTION {s}.lock_sessions(p_tenant text, p_sessions text[]) RETURNS void LANGUAGE plpgsql AS $body$
DECLARE
  v_key bigint;
BEGIN
  FOR v_key IN SELECT DISTINCT {s}.lock_key(p_tenant, name) AS key FROM unnest(p_sessions) AS name ORDER BY key LOOP
    PERFORM pg_advisory_xact_lock(v_key);
  END LOOP;
END $body$`;

/** Where listeners of a tenant are told that there is something new. */
const CHANNEL = `
CREATE OR REPLACE FUNCTION {s}.channel(p_tenant text) RETURNS text LANGUAGE sql IMMUTABLE AS $body$
  SELECT 'savestate_' || md5('{raw}' || chr(31) || p_tenant)
$body$`;

/** As they are now, in the order of creation. `{s}` stands for the schema's quoted name, `{raw}` for its name as a text. */
export const FUNCTIONS: readonly string[] = [
  LOCK_KEY,
  LISTEN_KEY,
  CHANNEL,
  LOCK_SESSIONS,
  BEGIN_COMMIT,
  TELL_LISTENERS,
  COMMIT_ONE,
  COMMIT_BATCH,
  SAVE_ONE,
  RECORD_ONE,
];
