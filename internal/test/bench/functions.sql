-- One function for each transition of the stores. Each reads what is there, judges it here, and writes with values that
-- it has computed: a statement that writes to a table calls immutable functions only, because Citus refuses others.
-- Each statement in a function sees what was committed when it began, as the statements of a client do. A function that
-- waited for a row therefore looks again.

CREATE FUNCTION holdfast_claim(
    _orchestrator text, _session text, _nonce text, _owner text, _ttl bigint, _from_epoch bigint, _from_nonce text,
    _request text
) RETURNS TABLE (
    verdict text, epoch bigint, nonce text, owner text, born bigint, newest integer, summarized integer,
    delivered integer, failed integer, turn integer, state jsonb, payload jsonb, route text[], signature text,
    version text, run_id text, request_id text, saved_at timestamptz
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _moment timestamptz;
    _now    bigint; -- _moment in microseconds
    _until  timestamptz;
    _owed   integer;
    _level  text := {level};
    _wait   text;
BEGIN
    LOOP
        SELECT h.epoch, h.nonce, h.owner, h.lease_until, h.owed INTO epoch, nonce, owner, _until, _owed
        FROM holdfast_sessions h WHERE h.orchestrator = _orchestrator AND h.session = _session;
        _moment := clock_timestamp();
        _now := extract(epoch FROM _moment) * 1e6;
        IF epoch IS NOT NULL THEN
            IF nonce <> _nonce AND (CASE
                WHEN _from_nonce = '' THEN _until > _moment
                ELSE epoch <> _from_epoch OR nonce <> _from_nonce
            END) THEN
                verdict := CASE WHEN _until > _moment THEN 'held' ELSE 'free' END;
                RETURN NEXT;
                RETURN;
            END IF;
            -- A claim of what was given back need not be durable, unless a reply is owed.
            _wait := CASE WHEN nonce = '' AND _owed IS NULL THEN 'off' ELSE _level END;
            _until := _moment + _ttl * interval '1 microsecond';
            UPDATE holdfast_sessions h SET
                epoch = CASE WHEN h.nonce = _nonce THEN h.epoch ELSE greatest(h.epoch + 1, _now) END,
                nonce = _nonce, owner = _owner, lease_until = _until
            WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = holdfast_claim.epoch
                AND h.nonce = holdfast_claim.nonce
                AND (h.lease_until <= _moment OR h.nonce = _nonce OR _from_nonce <> '')
            RETURNING h.epoch, h.nonce, h.owner, h.born, h.turn, h.summarized, coalesce(h.owed, h.turn + 1), h.failed
            INTO epoch, nonce, owner, born, newest, summarized, delivered, failed;
            EXIT WHEN FOUND;
        ELSIF _from_nonce <> '' THEN
            RETURN;
        ELSE
            epoch := _now;
            IF EXISTS (SELECT FROM holdfast_turns t WHERE t.orchestrator = _orchestrator AND t.session = _session)
                AND NOT EXISTS (
                    SELECT FROM holdfast_sessions h WHERE h.orchestrator = _orchestrator AND h.session = _session) THEN
                verdict := 'headless';
                RETURN NEXT;
                RETURN;
            END IF;
            _wait := _level;
            INSERT INTO holdfast_sessions (orchestrator, session, epoch, nonce, owner, lease_until, born)
            VALUES (_orchestrator, _session, _now, _nonce, _owner, _moment, _now)
            ON CONFLICT (orchestrator, session) DO NOTHING;
            IF FOUND THEN
                -- The session may have lived, and died, since the clock was read: the INSERT may have waited for that.
                -- Nobody has seen the row yet.
                _moment := clock_timestamp();
                _now := extract(epoch FROM _moment) * 1e6;
                _until := _moment + _ttl * interval '1 microsecond';
                UPDATE holdfast_sessions h SET epoch = _now, born = _now, lease_until = _until
                WHERE h.orchestrator = _orchestrator AND h.session = _session;
                epoch := _now; nonce := _nonce; owner := _owner; born := _now; newest := -1;
                summarized := 0; delivered := 0; failed := 0;
                EXIT;
            END IF;
        END IF;
    END LOOP;

    verdict := 'granted';
    IF newest >= 0 THEN
        SELECT t.turn, t.state, t.payload, t.route, t.signature, t.version, t.run_id, coalesce(t.request_id, ''),
            t.saved_at
        INTO turn, state, payload, route, signature, version, run_id, request_id, saved_at
        FROM holdfast_turns t
        WHERE t.orchestrator = _orchestrator AND t.session = _session AND t.turn = newest;
    END IF;
    RETURN NEXT;
    IF _request <> '' THEN
        SELECT t.turn, t.state, t.payload, t.route, t.signature, t.version, t.run_id, t.request_id, t.saved_at
        INTO turn, state, payload, route, signature, version, run_id, request_id, saved_at
        FROM (
            SELECT * FROM holdfast_turns r
            WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.request_id = _request OFFSET 0
        ) t
        WHERE t.turn <= newest
        ORDER BY t.turn DESC
        LIMIT 1;
        IF FOUND THEN
            _wait := _level; -- the answer is told as settled
            verdict := 'answered';
            RETURN NEXT;
        END IF;
    END IF;
    _wait := set_config('synchronous_commit', _wait, true);
END $$;

CREATE FUNCTION holdfast_append(
    _orchestrator text, _session text, _epoch bigint, _nonce text, _turn integer, _state jsonb, _payload jsonb,
    _route text[], _signature text, _version text, _run text, _request text, _keep integer, _owes boolean,
    _release boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _moment timestamptz := clock_timestamp();
    _pruned integer;
    _first  integer;
    _ours   boolean;
    _level  text := set_config('synchronous_commit', {level}, true);
BEGIN
    UPDATE holdfast_sessions h SET
        turn = _turn,
        pruned = h.first,
        first = greatest(h.first, least(_turn - _keep + 1, coalesce(h.owed, _turn))),
        owed = coalesce(h.owed, CASE WHEN _owes THEN _turn END),
        nonce = CASE WHEN _release THEN '' ELSE h.nonce END,
        lease_until = CASE WHEN _release THEN _moment ELSE greatest(h.lease_until, _moment) END
    WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = _epoch AND h.nonce = _nonce
        AND h.turn = _turn - 1
    RETURNING h.pruned, h.first INTO _pruned, _first;
    IF NOT FOUND THEN
        SELECT EXISTS (
            SELECT FROM holdfast_sessions h
            WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = _epoch AND h.nonce = _nonce)
        INTO _ours;
        IF EXISTS (SELECT FROM holdfast_turns t
            WHERE t.orchestrator = _orchestrator AND t.session = _session AND t.run_id = _run
                AND t.turn >= least(_turn, (
                    SELECT h.turn - {looked} + 1 FROM holdfast_sessions h
                    WHERE h.orchestrator = _orchestrator AND h.session = _session))) THEN
            PERFORM pg_logical_emit_message(true, 'holdfast', '');
            RETURN 'settled';
        END IF;
        RETURN CASE WHEN _ours THEN 'conflict' ELSE 'fenced' END;
    END IF;
    INSERT INTO holdfast_turns (
        orchestrator, session, turn, state, payload, route, signature, version, run_id, request_id)
    VALUES (_orchestrator, _session, _turn, _state, _payload, _route, _signature, _version, _run, nullif(_request, ''));
    IF _first > _pruned THEN
        DELETE FROM holdfast_turns t
        WHERE t.orchestrator = _orchestrator AND t.session = _session AND t.turn >= _pruned AND t.turn < _first;
    END IF;
    RETURN 'appended';
END $$;

CREATE FUNCTION holdfast_mark(
    _orchestrator text, _session text, _epoch bigint, _nonce text, _summarized integer, _delivered integer,
    _release boolean, _retry bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _moment timestamptz := clock_timestamp();
    _later  timestamptz := _moment + _retry * interval '1 microsecond';
    _level  text;
BEGIN
    UPDATE holdfast_sessions h SET
        summarized = greatest(h.summarized, least(_summarized, h.turn + 1)),
        owed = CASE WHEN _delivered > h.turn THEN NULL WHEN h.owed IS NOT NULL THEN greatest(h.owed, _delivered) END,
        failed = CASE WHEN _delivered > h.owed THEN 0 ELSE h.failed END
            + CASE WHEN _retry > 0 AND h.owed IS NOT NULL AND _delivered <= h.turn THEN 1 ELSE 0 END,
        retry_at = CASE
            WHEN _retry > 0 AND h.owed IS NOT NULL AND _delivered <= h.turn THEN _later
            WHEN _delivered > h.owed THEN NULL
            ELSE h.retry_at
        END,
        nonce = CASE WHEN _release THEN '' ELSE h.nonce END,
        lease_until = CASE WHEN _release AND h.nonce <> '' THEN _moment ELSE greatest(h.lease_until, _moment) END
    WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = _epoch AND h.nonce IN (_nonce, '');
    _level := set_config('synchronous_commit', 'off', true);
    RETURN FOUND;
END $$;

-- The head goes first: one statement would miss the turn of an append that it waited for. If there was no head, one may
-- be born meanwhile. A statement that sees turns of that life sees its head too, and spares them.
CREATE FUNCTION holdfast_delete(_orchestrator text, _session text, _epoch bigint, _nonce text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    _level text := set_config('synchronous_commit', {level}, true);
BEGIN
    DELETE FROM holdfast_sessions h
    WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = _epoch AND h.nonce = _nonce;
    IF EXISTS (SELECT FROM holdfast_sessions h WHERE h.orchestrator = _orchestrator AND h.session = _session) THEN
        RETURN false;
    END IF;
    DELETE FROM holdfast_turns t
    WHERE t.orchestrator = _orchestrator AND t.session = _session AND NOT EXISTS (
        SELECT FROM holdfast_sessions h WHERE h.orchestrator = _orchestrator AND h.session = _session);
    PERFORM pg_logical_emit_message(true, 'holdfast', '');
    RETURN true;
END $$;

CREATE FUNCTION holdfast_begin(
    _orchestrator text, _session text, _id text, _request text, _turn integer, _attempt integer, _base text,
    _status text, _seq bigint, _epoch bigint, _nonce text, _payload jsonb, _error text, _pause bigint, _names text[],
    _docs text[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _moment  timestamptz := clock_timestamp();
    _later   timestamptz := CASE WHEN _pause > 0 THEN _moment + _pause * interval '1 microsecond' END;
    _version bigint;
    _level   text := set_config('synchronous_commit', {level}, true);
BEGIN
    UPDATE holdfast_runs r SET
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
        INSERT INTO holdfast_runs (
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
    IF _names IS NOT NULL THEN
        INSERT INTO holdfast_run_parts (orchestrator, session, payload_version, name, doc)
        SELECT _orchestrator, _session, _version, n.name, n.doc::jsonb FROM unnest(_names, _docs) AS n (name, doc);
    END IF;
    RETURN true;
END $$;

-- It says why a session has refused a Begin: by the run in flight, or by a verdict alone. No row means that the caller
-- may begin again. It is a function of its own because a function that returns rows costs more, each time.
CREATE FUNCTION holdfast_find(_orchestrator text, _session text, _epoch bigint)
RETURNS TABLE ({run}) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _moment timestamptz := clock_timestamp();
    _level  text := set_config('synchronous_commit', {level}, true);
BEGIN
    -- The run in flight is another's, who goes on. But nothing begins later under the fence of this Begin.
    UPDATE holdfast_runs r SET found = greatest(r.found, _epoch)
    WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.deleted_at IS NULL;
    IF FOUND THEN
        RETURN QUERY SELECT 'found', {columns}, NULL::text[], NULL::text[]
        FROM holdfast_runs r WHERE r.orchestrator = _orchestrator AND r.session = _session;
    ELSIF EXISTS (
        SELECT FROM holdfast_runs r
        WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.deleted_at IS NOT NULL
            AND (r.epoch >= _epoch OR r.found >= _epoch)) THEN
        PERFORM pg_logical_emit_message(true, 'holdfast', '');
        verdict := 'spent';
        RETURN NEXT;
    END IF;
END $$;

CREATE FUNCTION holdfast_adopt(_orchestrator text, _session text, _epoch bigint, _nonce text, _most integer)
RETURNS TABLE ({run}) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _moment timestamptz := clock_timestamp();
    _now    bigint := extract(epoch FROM _moment) * 1e6;
    _level  text := set_config('synchronous_commit', {level}, true);
BEGIN
    INSERT INTO holdfast_runs AS r (
        orchestrator, session, id, request_id, turn, attempt, base, status, seq, epoch, nonce, found, error, parts,
        payload_version, started_at, saved_at, deleted_at)
    VALUES (_orchestrator, _session, '', '', 0, 0, '', 'deleted', 0, _epoch, _nonce, 0, '',
        false, _now, _moment, _moment, _moment)
    ON CONFLICT (orchestrator, session) DO UPDATE SET
        attempt = r.attempt + CASE WHEN {counts} AND r.attempt < _most THEN 1 ELSE 0 END,
        status = CASE WHEN {counts} AND r.attempt >= _most THEN 'parked' ELSE r.status END,
        deleted_at = CASE WHEN r.deleted_at IS NOT NULL THEN _moment END,
        epoch = excluded.epoch,
        nonce = excluded.nonce
    WHERE r.epoch < excluded.epoch OR r.epoch = excluded.epoch AND r.nonce = excluded.nonce;
    IF FOUND THEN
        -- The row is locked now, so that a Save of parts cannot come in between.
        RETURN QUERY SELECT 'adopted', {columns},
            (SELECT array_agg(p.name ORDER BY p.name) FROM holdfast_run_parts p
                WHERE p.orchestrator = _orchestrator AND p.session = _session
                    AND p.payload_version = r.payload_version),
            (SELECT array_agg(p.doc::text ORDER BY p.name) FROM holdfast_run_parts p
                WHERE p.orchestrator = _orchestrator AND p.session = _session
                    AND p.payload_version = r.payload_version)
        FROM holdfast_runs r WHERE r.orchestrator = _orchestrator AND r.session = _session;
    END IF;
END $$;

CREATE FUNCTION holdfast_save(
    _orchestrator text, _session text, _id text, _epoch bigint, _nonce text, _request text, _turn integer,
    _attempt integer, _base text, _status text, _seq bigint, _payload jsonb, _error text, _pause bigint,
    _names text[], _docs text[]
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _moment  timestamptz := clock_timestamp();
    _later   timestamptz := CASE WHEN _pause > 0 THEN _moment + _pause * interval '1 microsecond' END;
    _parts   boolean;
    _version bigint;
    _level   text := set_config('synchronous_commit', {level}, true);
BEGIN
    UPDATE holdfast_runs r SET
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
            SELECT FROM holdfast_runs r
            WHERE r.orchestrator = _orchestrator AND r.session = _session AND r.id = _id AND r.epoch = _epoch
                AND r.nonce = _nonce AND r.seq >= _seq AND r.deleted_at IS NULL) THEN
            PERFORM pg_logical_emit_message(true, 'holdfast', '');
            RETURN true;
        END IF;
        RETURN false;
    END IF;
    IF _names IS NOT NULL THEN
        INSERT INTO holdfast_run_parts (orchestrator, session, payload_version, name, doc)
        SELECT _orchestrator, _session, _version, n.name, n.doc::jsonb FROM unnest(_names, _docs) AS n (name, doc)
        ON CONFLICT (orchestrator, session, payload_version, name) DO UPDATE SET doc = excluded.doc;
    END IF;
    IF _parts AND _payload IS NOT NULL THEN
        DELETE FROM holdfast_run_parts p
        WHERE p.orchestrator = _orchestrator AND p.session = _session AND p.payload_version < _version;
    END IF;
    RETURN true;
END $$;

CREATE FUNCTION holdfast_forget(_orchestrator text, _session text, _id text, _epoch bigint, _nonce text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    _moment timestamptz := clock_timestamp();
    _parts  boolean;
    _is     text;
    _now    bigint;
    _by     text;
    _gone   boolean;
    _level  text;
BEGIN
    LOOP
        UPDATE holdfast_runs r SET
            deleted_at = _moment, status = 'deleted',
            request_id = '', base = '', error = '', payload = NULL, not_before = NULL
        WHERE r.orchestrator = _orchestrator AND r.session = _session AND (r.id = _id OR r.id = '') AND r.epoch = _epoch
            AND r.nonce = _nonce AND r.deleted_at IS NULL
        RETURNING r.parts INTO _parts;
        IF FOUND THEN
            IF _parts THEN
                DELETE FROM holdfast_run_parts p WHERE p.orchestrator = _orchestrator AND p.session = _session;
            END IF;
            _level := set_config('synchronous_commit', 'off', true);
            RETURN true;
        END IF;
        SELECT r.id, r.epoch, r.nonce, r.deleted_at IS NOT NULL INTO _is, _now, _by, _gone
        FROM holdfast_runs r WHERE r.orchestrator = _orchestrator AND r.session = _session;
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
