-- One function for each transition of one session. Each reads what is there, judges it here, and writes with values that
-- it has computed: a statement that writes to a table calls immutable functions only and names the session, because
-- Citus refuses others. Each statement in a function sees what was committed when it began, as the statements of a client
-- do. A function that waited for a row therefore looks again.
--
-- The number in a name stands for the body. A body that was released stays as it is, because processes of two releases
-- call functions of one database. A change gets the next number.

CREATE FUNCTION {run_begin}(
    _orchestrator text, _session text, _id text, _request text, _turn integer, _attempt integer, _base text,
    _status text, _seq bigint, _epoch bigint, _nonce text, _payload jsonb, _error text, _pause bigint, _names text[],
    _docs text[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _moment  timestamptz := clock_timestamp();
    _later   timestamptz := CASE WHEN _pause > 0 THEN _moment + _pause * interval '1 microsecond' END;
    _version bigint;
BEGIN
    PERFORM set_config('synchronous_commit', {level}, true);
    UPDATE {runs} r SET
        id = _id, request_id = _request, turn = _turn, attempt = _attempt, base = _base, status = _status, seq = _seq,
        epoch = _epoch, nonce = _nonce, payload = _payload, payload_version = r.payload_version + 1,
        parts = _names IS NOT NULL, error = _error,
        not_before = _later,
        started_at = _moment, saved_at = _moment, deleted_at = NULL
    WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.deleted_at IS NOT NULL AND r.epoch < _epoch
        AND r.found < _epoch
    RETURNING r.payload_version INTO _version;
    IF NOT FOUND THEN
        _version := extract(epoch FROM _moment) * 1e6;
        INSERT INTO {runs} (
            orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, found, payload,
            payload_version, parts, error, not_before, started_at, saved_at)
        VALUES (_orchestrator, _session, _id, _request, _turn, _attempt, _base, _status, _seq, _epoch, _nonce,
            0, _payload, _version, _names IS NOT NULL, _error,
            _later, _moment, _moment)
        ON CONFLICT (orchestrator, session) DO NOTHING;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
    END IF;
    FOR i IN 1 .. coalesce(cardinality(_names), 0) LOOP
        INSERT INTO {run_parts} (orchestrator, session, payload_version, name, doc)
        VALUES (_orchestrator, _session, _version, _names[i], _docs[i]::jsonb)
        ON CONFLICT (orchestrator, session, payload_version, name) DO UPDATE SET doc = excluded.doc;
    END LOOP;
    RETURN true;
END $$;

-- It says why a session has refused a Begin: by the run in flight, or by a verdict alone. No row means that the caller
-- may begin again. It is a function of its own because a function that returns rows costs more, each time. If it is
-- brief, it reads nothing that may be out of line.
CREATE FUNCTION {run_find}(_orchestrator text, _session text, _epoch bigint, _brief boolean)
RETURNS TABLE (
    {columns_of_run}, verdict text
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _moment timestamptz := clock_timestamp();
BEGIN
    PERFORM set_config('synchronous_commit', {level}, true);
    -- The run in flight is another's, who goes on. But nothing begins later under the fence of this Begin.
    UPDATE {runs} r SET found = greatest(r.found, _epoch)
    WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.deleted_at IS NULL;
    IF FOUND THEN
        RETURN QUERY SELECT {run_as_it_is}, 'found'
        FROM {runs} r WHERE r.orchestrator = _orchestrator AND r.session = _session;
    ELSIF EXISTS (
        SELECT FROM {runs} r
        WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.deleted_at IS NOT NULL
            AND (r.epoch >= _epoch OR r.found >= _epoch)) THEN
        PERFORM pg_logical_emit_message(true, 'holdfast', ''); -- so that the commit waits for what was seen
        verdict := 'spent';
        RETURN NEXT;
    END IF;
END $$;

CREATE FUNCTION {run_adopt}(
    _orchestrator text, _session text, _epoch bigint, _nonce text, _most integer, _brief boolean
) RETURNS TABLE (
    {columns_of_run}, names text[], docs text[]
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _moment timestamptz := clock_timestamp();
    _now    bigint := extract(epoch FROM _moment) * 1e6;
BEGIN
    PERFORM set_config('synchronous_commit', {level}, true);
    INSERT INTO {runs} AS r (
        orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, found, error, parts,
        payload_version, started_at, saved_at, deleted_at)
    VALUES (_orchestrator, _session, '', '', 0, 0, '', 'deleted', 0, _epoch, _nonce, 0, '',
        false, _now, _moment, _moment, _moment)
    ON CONFLICT (orchestrator, session) DO UPDATE SET
        attempt = r.attempt + CASE WHEN {run_counts} AND r.attempt < _most THEN 1 ELSE 0 END,
        status = CASE WHEN {run_counts} AND r.attempt >= _most THEN 'parked' ELSE r.status END,
        deleted_at = CASE WHEN r.deleted_at IS NOT NULL THEN _moment END,
        epoch = excluded.epoch,
        nonce = excluded.nonce
    WHERE r.epoch < excluded.epoch OR r.epoch = excluded.epoch AND r.nonce = excluded.nonce;
    IF FOUND THEN
        -- The row is locked now, so that a Save of parts cannot come in between.
        RETURN QUERY SELECT {run_as_it_is},
            (SELECT array_agg(p.name ORDER BY p.name) FROM {run_parts} p
                WHERE p.orchestrator = _orchestrator AND p.session = _session
                    AND p.payload_version = r.payload_version AND NOT _brief),
            (SELECT array_agg(p.doc::text ORDER BY p.name) FROM {run_parts} p
                WHERE p.orchestrator = _orchestrator AND p.session = _session
                    AND p.payload_version = r.payload_version AND NOT _brief)
        FROM {runs} r WHERE r.orchestrator = _orchestrator AND r.session = _session;
    END IF;
END $$;

CREATE FUNCTION {run_save}(
    _orchestrator text, _session text, _id text, _epoch bigint, _nonce text, _request text, _turn integer,
    _attempt integer, _base text, _status text, _seq bigint, _payload jsonb, _error text, _pause bigint,
    _names text[], _docs text[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _moment  timestamptz := clock_timestamp();
    _later   timestamptz := CASE WHEN _pause > 0 THEN _moment + _pause * interval '1 microsecond' END;
    _parts   boolean;
    _version bigint;
BEGIN
    PERFORM set_config('synchronous_commit', {level}, true);
    UPDATE {runs} r SET
        request_id = _request, turn = _turn, attempt = _attempt, base = _base, status = _status, seq = _seq,
        payload = coalesce(_payload, r.payload),
        payload_version = r.payload_version + CASE WHEN _payload IS NULL THEN 0 ELSE 1 END,
        parts = r.parts OR _names IS NOT NULL, error = _error,
        not_before = _later,
        saved_at = _moment
    WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.id = _id AND r.epoch = _epoch
        AND r.nonce = _nonce AND r.seq < _seq AND r.status <> 'ended' AND r.deleted_at IS NULL
    RETURNING r.parts, r.payload_version INTO _parts, _version;
    IF NOT FOUND THEN
        IF EXISTS (
            SELECT FROM {runs} r
            WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.id = _id AND r.epoch = _epoch
                AND r.nonce = _nonce AND r.seq >= _seq AND r.deleted_at IS NULL) THEN
            PERFORM pg_logical_emit_message(true, 'holdfast', '');
            RETURN true;
        END IF;
        RETURN false;
    END IF;
    FOR i IN 1 .. coalesce(cardinality(_names), 0) LOOP
        INSERT INTO {run_parts} (orchestrator, session, payload_version, name, doc)
        VALUES (_orchestrator, _session, _version, _names[i], _docs[i]::jsonb)
        ON CONFLICT (orchestrator, session, payload_version, name) DO UPDATE SET doc = excluded.doc;
    END LOOP;
    IF _parts AND _payload IS NOT NULL THEN
        DELETE FROM {run_parts} p
        WHERE p.orchestrator = _orchestrator AND p.session = _session AND p.payload_version < _version;
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION {run_delete}(_orchestrator text, _session text, _id text, _epoch bigint, _nonce text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    _moment timestamptz := clock_timestamp();
    _parts  boolean;
    _is     text;
    _now    bigint;
    _by     text;
    _gone   boolean;
BEGIN
    LOOP
        UPDATE {runs} r SET
            deleted_at = _moment, status = 'deleted',
            request_id = '', base = '', error = '', payload = NULL, not_before = NULL
        WHERE r.orchestrator = _orchestrator AND r.session = _session AND (r.id = _id OR r.id = '') AND r.epoch = _epoch
            AND r.nonce = _nonce AND r.deleted_at IS NULL
        RETURNING r.parts INTO _parts;
        IF FOUND THEN
            IF _parts THEN
                DELETE FROM {run_parts} p WHERE p.orchestrator = _orchestrator AND p.session = _session;
            END IF;
            PERFORM set_config('synchronous_commit', 'off', true);
            RETURN true;
        END IF;
        SELECT r.id, r.epoch, r.nonce, r.deleted_at IS NOT NULL INTO _is, _now, _by, _gone
        FROM {runs} r WHERE r.orchestrator = _orchestrator AND r.session = _session;
        IF NOT FOUND THEN
            RETURN true;
        ELSIF _epoch < _now OR _epoch = _now AND _nonce <> _by THEN
            RETURN false;
        ELSIF _gone OR _is <> _id AND _is <> '' THEN
            RETURN true;
        ELSIF _epoch <> _now THEN
            RETURN false;
        END IF; -- else this fence has adopted it since
    END LOOP;
END $$;

-- Both stores have their tables on the node that has the session, so one function settles a turn and deletes its run.
-- _append is the quoted name of the function that appends, which may have another prefix.
CREATE FUNCTION {run_settle}(
    _append text, _orchestrator text, _session text, _epoch bigint, _nonce text, _turn integer, _state jsonb,
    _payload jsonb, _route text[], _signature text, _version text, _run text, _request text, _keep integer,
    _owes boolean, _release boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _moment  timestamptz := clock_timestamp();
    _verdict text;
    _parts   boolean;
BEGIN
    EXECUTE 'SELECT ' || _append || '($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)'
    INTO _verdict
    USING _orchestrator, _session, _epoch, _nonce, _turn, _state, _payload, _route, _signature, _version, _run,
        _request, _keep, _owes, _release;
    IF _verdict <> 'appended' THEN
        RETURN _verdict;
    END IF;
    UPDATE {runs} r SET
        deleted_at = _moment, status = 'deleted',
        request_id = '', base = '', error = '', payload = NULL, not_before = NULL
    WHERE r.orchestrator = _orchestrator AND r.session = _session AND (r.id = _run OR r.id = '') AND r.epoch = _epoch
        AND r.nonce = _nonce AND r.deleted_at IS NULL
    RETURNING r.parts INTO _parts;
    IF NOT FOUND THEN
        RETURN _verdict;
    END IF;
    IF _parts THEN
        DELETE FROM {run_parts} p WHERE p.orchestrator = _orchestrator AND p.session = _session;
    END IF;
    RETURN 'forgotten';
END $$;

CREATE FUNCTION {run_raise}(_orchestrator text, _session text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _now bigint := extract(epoch FROM clock_timestamp()) * 1e6;
BEGIN
    PERFORM set_config('synchronous_commit', {level}, true);
    UPDATE {runs} r SET epoch = greatest(r.epoch, _now), nonce = 'raised'
    WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.nonce <> 'raised';
    RETURN FOUND;
END $$;

-- Who writes parts updates the row, and then the session is not over.
CREATE FUNCTION {run_retire}(_orchestrator text, _session text, _over bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _before timestamptz := clock_timestamp() - _over * interval '1 microsecond';
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM 1 FROM {runs} r
    WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.deleted_at < _before
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM {runs} r WHERE r.orchestrator = _orchestrator AND r.session = _session;
    DELETE FROM {run_parts} p WHERE p.orchestrator = _orchestrator AND p.session = _session;
    RETURN true;
END $$;
