-- There is one function for each transition of one session. Each function reads the stored rows, judges them here, and
-- writes values that it has computed. A statement that writes to a table calls immutable functions only and names the
-- session, because Citus refuses other statements. Each statement in a function sees all data that was committed when
-- the statement began, as the statements of a client do. A function that waited for a row therefore looks again.
--
-- The number in a name stands for the body. A body that was released stays as it is, because processes of two releases
-- call functions of one database. A change gets the next number.

CREATE FUNCTION {session_claim}(
    _orchestrator text, _session text, _nonce text, _owner text, _ttl bigint, _from_epoch bigint, _from_nonce text,
    _born bigint, _request text, _brief boolean
) RETURNS TABLE (
    verdict text, epoch bigint, nonce text, owner text, born bigint, newest integer, summarized integer,
    delivered integer, failed integer, turn integer, state jsonb, payload jsonb, route text[], signature text,
    version text, run_id text, request_id text, saved_at timestamptz
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _moment     timestamptz;
    _now        bigint; -- _moment in microseconds
    _until      timestamptz;
    _seen_epoch bigint;
    _seen_nonce text;
    _owed       integer;
    _level      text := {level};
    _wait       text;
BEGIN
    LOOP
        SELECT h.epoch, h.nonce, h.owner, h.lease_until, h.owed INTO _seen_epoch, _seen_nonce, owner, _until, _owed
        FROM {sessions} h WHERE h.orchestrator = _orchestrator AND h.session = _session;
        _moment := clock_timestamp();
        _now := extract(epoch FROM _moment) * 1e6;
        IF _seen_epoch IS NOT NULL THEN
            IF _seen_nonce <> _nonce AND (CASE
                WHEN _from_nonce = '' THEN _until > _moment
                ELSE _seen_epoch <> _from_epoch OR _seen_nonce <> _from_nonce
            END) THEN
                verdict := CASE WHEN _until > _moment THEN 'held' ELSE 'free' END;
                epoch := _seen_epoch;
                nonce := _seen_nonce;
                RETURN NEXT;
                RETURN;
            END IF;
            -- A claim of what was given back need not be durable, unless a reply is owed.
            _wait := CASE WHEN _seen_nonce = '' AND _owed IS NULL THEN 'off' ELSE _level END;
            _until := _moment + _ttl * interval '1 microsecond';
            UPDATE {sessions} h SET
                epoch = CASE WHEN h.nonce = _nonce THEN h.epoch ELSE greatest(h.epoch + 1, _now) END,
                born = CASE WHEN _born > 0 AND h.turn < 0 THEN _born ELSE h.born END,
                nonce = _nonce, owner = _owner, lease_until = _until
            WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = _seen_epoch
                AND h.nonce = _seen_nonce
                AND (h.lease_until <= _moment OR h.nonce = _nonce OR _from_nonce <> '')
            RETURNING h.epoch, h.nonce, h.owner, h.born, h.turn, h.summarized, coalesce(h.owed, h.turn + 1), h.failed
            INTO epoch, nonce, owner, born, newest, summarized, delivered, failed;
            EXIT WHEN FOUND;
        ELSIF _from_nonce <> '' THEN
            RETURN;
        ELSE
            IF EXISTS (SELECT FROM {turns} t WHERE t.orchestrator = _orchestrator AND t.session = _session)
                AND NOT EXISTS (
                    SELECT FROM {sessions} h WHERE h.orchestrator = _orchestrator AND h.session = _session) THEN
                verdict := 'headless';
                epoch := _now;
                RETURN NEXT;
                RETURN;
            END IF;
            _wait := _level;
            INSERT INTO {sessions} (orchestrator, session, epoch, nonce, owner, lease_until, born)
            VALUES (_orchestrator, _session, _now, _nonce, _owner, _moment, _now)
            ON CONFLICT (orchestrator, session) DO NOTHING;
            IF FOUND THEN
                -- The session may have lived, and died, since the clock was read: the INSERT may have waited for that.
                -- Nobody has seen the row yet.
                _moment := clock_timestamp();
                _now := extract(epoch FROM _moment) * 1e6;
                _until := _moment + _ttl * interval '1 microsecond';
                UPDATE {sessions} h SET epoch = _now, born = _now, lease_until = _until
                WHERE h.orchestrator = _orchestrator AND h.session = _session;
                epoch := _now; nonce := _nonce; owner := _owner; born := _now; newest := -1;
                summarized := 0; delivered := 0; failed := 0;
                EXIT;
            END IF;
        END IF;
    END LOOP;

    verdict := 'granted';
    IF newest >= 0 AND NOT _brief THEN
        SELECT t.turn, t.state, t.payload, t.route, t.signature, t.version, t.run_id, coalesce(t.request_id, ''),
            t.saved_at
        INTO turn, state, payload, route, signature, version, run_id, request_id, saved_at
        FROM {turns} t
        WHERE t.orchestrator = _orchestrator AND t.session = _session AND t.turn = newest;
    END IF;
    RETURN NEXT;
    IF _request <> '' AND NOT _brief THEN
        -- OFFSET 0 keeps the order of the turns out of the choice of an index.
        SELECT t.turn, t.state, t.payload, t.route, t.signature, t.version, t.run_id, t.request_id, t.saved_at
        INTO turn, state, payload, route, signature, version, run_id, request_id, saved_at
        FROM (
            SELECT * FROM {turns} r
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
    PERFORM set_config('synchronous_commit', _wait, true);
END $$;

-- The search for the run covers the turns where it can be, and some older ones: with an index of the runs every settle
-- would pay.
CREATE FUNCTION {session_append}(
    _orchestrator text, _session text, _epoch bigint, _nonce text, _turn integer, _state jsonb, _payload jsonb,
    _route text[], _signature text, _version text, _run text, _request text, _keep integer, _owes boolean,
    _release boolean
) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    _moment timestamptz := clock_timestamp();
    _pruned integer;
    _first  integer;
    _ours   boolean;
BEGIN
    PERFORM set_config('synchronous_commit', {level}, true);
    UPDATE {sessions} h SET
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
        _ours := EXISTS (
            SELECT FROM {sessions} h
            WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = _epoch AND h.nonce = _nonce);
        IF EXISTS (SELECT FROM {turns} t
            WHERE t.orchestrator = _orchestrator AND t.session = _session AND t.run_id = _run
                AND t.turn >= least(_turn, (
                    SELECT h.turn - {looked} + 1 FROM {sessions} h
                    WHERE h.orchestrator = _orchestrator AND h.session = _session))) THEN
            PERFORM pg_logical_emit_message(true, 'holdfast', ''); -- so that the commit waits for what was seen
            RETURN 'settled';
        END IF;
        RETURN CASE WHEN _ours THEN 'conflict' ELSE 'fenced' END;
    END IF;
    INSERT INTO {turns} (
        orchestrator, session, turn, state, payload, route, signature, version, run_id, request_id)
    VALUES (_orchestrator, _session, _turn, _state, _payload, _route, _signature, _version, _run, nullif(_request, ''));
    IF _first > _pruned THEN
        DELETE FROM {turns} t
        WHERE t.orchestrator = _orchestrator AND t.session = _session AND t.turn >= _pruned AND t.turn < _first;
    END IF;
    RETURN 'appended';
END $$;

-- A settle with new labels calls this function for what session_append, or a function around it, has returned. The
-- labels that stay are not written again. A time is in milliseconds, and -1 is none.
CREATE FUNCTION {session_relabel}(
    _verdict text, _orchestrator text, _session text, _names text[], _times bigint[]
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    IF _verdict NOT IN ('appended', 'forgotten') THEN
        RETURN _verdict;
    END IF;
    DELETE FROM {labels} l
    WHERE l.orchestrator = _orchestrator AND l.session = _session AND l.label <> ALL(_names);
    FOR i IN 1..cardinality(_names) LOOP
        INSERT INTO {labels} AS l (orchestrator, session, label, due)
        VALUES (_orchestrator, _session, _names[i], nullif(_times[i], -1))
        ON CONFLICT (orchestrator, label, session) DO UPDATE SET due = excluded.due
        WHERE l.due IS DISTINCT FROM excluded.due;
    END LOOP;
    RETURN _verdict;
END $$;

CREATE FUNCTION {session_mark}(
    _orchestrator text, _session text, _epoch bigint, _nonce text, _summarized integer, _delivered integer,
    _release boolean, _retry bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _moment timestamptz := clock_timestamp();
    _later  timestamptz := _moment + _retry * interval '1 microsecond';
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE {sessions} h SET
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
    RETURN FOUND;
END $$;

-- The head goes first: one statement would miss the turn of an append that it waited for. If there was no head, a
-- session may be born meanwhile. A statement that sees turns of that life sees its head too, and spares them. The
-- advisory lock is for stores without functions on the same tables: their first claims of a session rely on the lock.
CREATE FUNCTION {session_delete}(_orchestrator text, _session text, _epoch bigint, _nonce text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', {level}, true);
    PERFORM pg_advisory_xact_lock(hashtextextended(_orchestrator || '/' || _session, 0));
    DELETE FROM {sessions} h
    WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = _epoch AND h.nonce = _nonce;
    IF EXISTS (SELECT FROM {sessions} h WHERE h.orchestrator = _orchestrator AND h.session = _session) THEN
        RETURN false;
    END IF;
    DELETE FROM {turns} t
    WHERE t.orchestrator = _orchestrator AND t.session = _session AND NOT EXISTS (
        SELECT FROM {sessions} h WHERE h.orchestrator = _orchestrator AND h.session = _session);
    DELETE FROM {labels} l
    WHERE l.orchestrator = _orchestrator AND l.session = _session AND NOT EXISTS (
        SELECT FROM {sessions} h WHERE h.orchestrator = _orchestrator AND h.session = _session);
    PERFORM pg_logical_emit_message(true, 'holdfast', '');
    RETURN true;
END $$;

-- The commit waits for nothing, because it may keep the rows of many leases locked.
CREATE FUNCTION {session_renew}(
    _orchestrator text, _session text, _epoch bigint, _nonce text, _ttl bigint, _patience bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _until timestamptz := clock_timestamp() + _ttl * interval '1 microsecond';
BEGIN
    PERFORM set_config('lock_timeout', _patience::text, true);
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE {sessions} h SET lease_until = _until
    WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.epoch = _epoch AND h.nonce = _nonce;
    RETURN FOUND;
END $$;

CREATE FUNCTION {session_raise}(_orchestrator text, _session text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _moment timestamptz := clock_timestamp();
    _now    bigint := extract(epoch FROM _moment) * 1e6;
BEGIN
    PERFORM set_config('synchronous_commit', {level}, true);
    UPDATE {sessions} h SET
        epoch = greatest(h.epoch + 1, _now), nonce = '', lease_until = least(h.lease_until, _moment)
    WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.nonce <> '';
    RETURN FOUND;
END $$;

-- Every settle moves lease_until: if a session settled while the function waited, it is idle no more.
CREATE FUNCTION {session_retire}(_orchestrator text, _session text, _idle bigint, _unsettled bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    _moment timestamptz := clock_timestamp();
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM 1 FROM {sessions} h
    WHERE h.orchestrator = _orchestrator AND h.session = _session AND h.owed IS NULL AND h.lease_until < _moment
        - CASE WHEN h.turn < 0 THEN least(_idle, _unsettled) ELSE _idle END * interval '1 microsecond'
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM {sessions} h WHERE h.orchestrator = _orchestrator AND h.session = _session;
    DELETE FROM {turns} t WHERE t.orchestrator = _orchestrator AND t.session = _session;
    DELETE FROM {labels} l WHERE l.orchestrator = _orchestrator AND l.session = _session;
    RETURN true;
END $$;
