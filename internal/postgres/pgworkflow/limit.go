package pgworkflow

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
)

const (
	// look tells of workflows with a limit which have a run that is due, and when the first one is otherwise.
	look = `
		SELECT k.workflow, EXISTS (SELECT FROM {workflow_limits} l WHERE l.workflow = k.workflow),
			(extract(epoch FROM d.due - now()) * 1e6)::bigint
		FROM {definitions} CROSS JOIN LATERAL (
			SELECT m.due FROM {workflow_runs} m
			WHERE m.status = 'running' AND m.workflow = k.workflow AND m.version = k.version AND m.due < 'infinity'
			ORDER BY m.due LIMIT 1
		) d`

	limit = `
		WITH l AS (
			INSERT INTO {workflow_limits} (workflow, at) VALUES ($1::text, clock_timestamp()) ON CONFLICT DO NOTHING
		)
		SELECT {lazy}`

	// lockLimit locks a workflow against other claims with a limit, and fills its bucket. If another claim has the
	// lock, it does nothing. holder tells the next statement of the transaction which of the two it is.
	lockLimit = `
		UPDATE {workflow_limits} l SET holder = txid_current(),
			tokens = CASE WHEN $2::float8 = 0 THEN l.tokens ELSE least(1 + $2::float8 / 10,
				l.tokens + $2::float8 * greatest(extract(epoch FROM clock_timestamp() - l.at)::float8, 0)) END,
			at = CASE WHEN $2::float8 = 0 THEN l.at ELSE clock_timestamp() END
		FROM (
			SELECT workflow FROM {workflow_limits} WHERE workflow = $1::text FOR NO KEY UPDATE SKIP LOCKED
		) s
		WHERE l.workflow = s.workflow
		RETURNING {lazy}`

	// admit makes a process the owner of runs of workflow $4 that are due, within limits of $5 runs, $6 of a group, and
	// $7 that begin in a second. The lock was taken by the statement before, so that this one sees all runs that
	// earlier claims got. If it did both, it would count the owners as of before it had the lock.
	//
	// w has the first $8 runs of each definition. If these are not all that are due, g has the first runs of each
	// group, and the first that have begun: else these would wait behind runs that are held back.
	admit = `
		WITH RECURSIVE h AS MATERIALIZED (
			SELECT tokens FROM {workflow_limits} WHERE workflow = $4::text AND holder = txid_current_if_assigned()
		), v (version) AS (
			(SELECT m.version FROM {workflow_runs} m WHERE m.status = 'running' AND m.workflow = $4::text
				ORDER BY m.version LIMIT 1)
			UNION ALL
			SELECT n.version FROM v CROSS JOIN LATERAL (
				SELECT m.version FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.workflow = $4::text AND m.version > v.version
				ORDER BY m.version LIMIT 1
			) n
		), o AS MATERIALIZED (
			SELECT {group} AS name, count(*) AS owned FROM v CROSS JOIN LATERAL (
				SELECT m.place FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.workflow = $4::text AND m.version = v.version AND m.due IS NULL
					AND m.owner <> ''
			) m GROUP BY 1
		), r AS MATERIALIZED (
			SELECT CASE WHEN $5::bigint = 0 THEN $1::bigint
					ELSE least($1::bigint, $5::bigint - (SELECT coalesce(sum(owned), 0) FROM o))::bigint END AS room,
				CASE WHEN $7::float8 = 0 THEN 'Infinity' ELSE floor(h.tokens) END AS begins
			FROM h
		), w AS MATERIALIZED (
			SELECT l.* FROM {definitions} CROSS JOIN LATERAL (
				SELECT m.id, m.due, m.nonce <> '' AS begun, m.place FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.workflow = k.workflow AND m.version = k.version AND m.due <= now()
				ORDER BY m.due LIMIT $8::bigint
			) l WHERE (SELECT room FROM r) > 0
		), p (place) AS (
			(SELECT m.place FROM {workflow_runs} m
				WHERE (SELECT count(*) FROM w) >= $8::bigint AND $6::bigint + $7::float8 > 0
					AND m.status = 'running' AND m.place IS NOT NULL AND m.workflow = $4::text AND m.place < {places}
				ORDER BY m.place LIMIT 1)
			UNION ALL
			SELECT n.place FROM p CROSS JOIN LATERAL (
				SELECT m.place FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.place IS NOT NULL AND m.workflow = $4::text AND m.place > p.place
					AND m.place < {places}
				ORDER BY m.place LIMIT 1
			) n
		), g AS MATERIALIZED (
			SELECT l.* FROM p CROSS JOIN LATERAL (
				SELECT m.id, m.due, m.nonce <> '' AS begun, m.place FROM {workflow_runs} m
				WHERE m.status = 'running' AND m.place IS NOT NULL AND m.workflow = $4::text AND m.place = p.place
					AND m.due <= now() AND m.version IN (SELECT k.version FROM {definitions})
				ORDER BY m.due LIMIT CASE WHEN $6::bigint = 0 OR length(p.place) = 1 THEN $1::bigint
					ELSE least($1::bigint, $6::bigint) END
			) l
		), a AS MATERIALIZED (
			SELECT m.id, m.due, m.begun, {group} AS name,
				row_number() OVER (PARTITION BY {group}, m.begun ORDER BY m.due, m.id) AS of_group
			FROM (SELECT * FROM w UNION SELECT * FROM g) m
		), b AS (
			SELECT a.*, coalesce(o.owned, 0) AS owned,
				CASE WHEN a.begun THEN 0 ELSE row_number() OVER (PARTITION BY a.begun ORDER BY a.due, a.id) END AS nth
			FROM a LEFT JOIN o ON o.name = a.name
			WHERE $6::bigint = 0 OR a.name = '' OR coalesce(o.owned, 0) + a.of_group <= $6::bigint
		), c AS (
			SELECT b.*, b.owned + row_number() OVER (PARTITION BY b.name ORDER BY b.due, b.id) AS owners
			FROM b WHERE b.nth <= (SELECT begins FROM r)
		), d AS (
			SELECT m.id, m.due, m.nonce <> '' AS begun FROM {workflow_runs} m JOIN (
				SELECT id FROM c WHERE $6::bigint = 0 OR name = '' OR owners <= $6::bigint
				ORDER BY due, id LIMIT greatest(coalesce((SELECT room FROM r), 0), 0)
			) x ON x.id = m.id
			WHERE m.status || '' = 'running' AND m.due <= now() FOR NO KEY UPDATE OF m SKIP LOCKED
		), u AS (
			UPDATE {workflow_runs} m SET owner = $2::text, epoch = m.epoch + 1, nonce = $3::text, since = clock_timestamp(),
				due = NULL, hold = '', error = '', event = NULL, match = NULL, place = '!' || {group}
			FROM d WHERE m.id = d.id
			RETURNING d.due AS was, {claimed}
		), t AS (
			UPDATE {workflow_limits} SET tokens = tokens - (SELECT count(*) FROM d WHERE NOT begun)
			WHERE workflow = $4::text AND $7::float8 > 0 AND EXISTS (SELECT FROM d WHERE NOT begun)
		), e AS (
			SELECT CASE
				WHEN NOT EXISTS (SELECT FROM h) THEN 1e4
				WHEN (SELECT room FROM r) > 0 AND (SELECT count(*) FROM a) = (SELECT count(*) FROM d) THEN NULL
				WHEN $7::float8 = 0 THEN 1e6
				ELSE (SELECT CASE WHEN f.missing <= 0 THEN 1e6 ELSE least(f.missing / $7::float8 * 1e6 + 1, 1e6) END FROM (
					SELECT greatest(1, $7::float8 / 20) - h.tokens + (SELECT count(*) FROM d WHERE NOT begun) AS missing FROM h
				) f)
			END::bigint AS wait
		)
		SELECT least(e.wait, {following}), '', u.* FROM e LEFT JOIN u ON true
		ORDER BY u.was`
)

// places is greater than the places that admit looks at: all of them, or without a limit of groups those of runs that
// have begun.
const places = `CASE WHEN $6::bigint = 0 THEN '=' ELSE '>' END`

// claimWithin claims runs of workflows with a limit, and of others. In turn each kind comes first, so that no kind
// waits for the others for ever.
func (s *Store) claimWithin(
	ctx context.Context, r *workflow.ClaimRequest,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	var others []workflow.Definition
	limited := make(map[string][]workflow.Definition)
	for _, d := range r.Definitions {
		if _, ok := r.Limits[d.Workflow]; ok {
			limited[d.Workflow] = append(limited[d.Workflow], d)
		} else {
			others = append(others, d)
		}
	}
	due, next, err := s.limitedDue(ctx, limited)
	if err != nil {
		return nil, 0, err
	}
	if len(others) > 0 {
		due = append(due, "") // no workflow has such a name
	}
	if len(due) == 0 {
		return nil, next, nil
	}
	first := int(s.turn.Add(1)) % len(due)
	for _, name := range slices.Concat(due[first:], due[:first]) {
		room := r.Limit - len(claimed)
		if room == 0 {
			break
		}
		var some []workflow.Claimed
		var wait time.Duration
		if name == "" {
			of := *r
			of.Definitions = others
			some, wait, err = s.claim(ctx, &of, room, nil)
		} else {
			some, wait, err = s.admit(ctx, r, name, limited[name], room)
		}
		if claimed = append(claimed, some...); err != nil {
			return claimed, 0, err
		}
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return claimed, next, nil
}

// limitedDue returns which workflows with a limit have runs that are due, and when the first of the others is. It adds
// the rows of limits that are not there yet.
func (s *Store) limitedDue(
	ctx context.Context, limited map[string][]workflow.Definition,
) (due []string, next time.Duration, err error) {
	if len(limited) == 0 {
		return nil, 0, nil
	}
	var name string
	var there bool
	var in int64
	var missing []string
	read := each(func() {
		switch wait := soon(&in); {
		case in > 0:
			if next == 0 || wait < next {
				next = wait
			}
			return
		case !there:
			missing = append(missing, name)
		}
		due = append(due, name)
	}, &name, &there, &in)
	all := slices.Concat(slices.Collect(maps.Values(limited))...)
	sql := strings.ReplaceAll(s.sql.look, "{definitions}", definitions(all))
	err = s.db.Answered(ctx, func() error {
		due, missing, next = nil, nil, 0
		return s.pipe(ctx, []call{{sql, nil, read}})
	})
	for _, name := range missing {
		if err == nil {
			add := call{s.sql.limit, []any{name}, each(func() {}, nil)}
			err = s.db.Answered(ctx, func() error { return s.pipe(ctx, []call{add}) })
		}
	}
	slices.Sort(due)
	return slices.Compact(due), next, err
}

// admit claims runs of a workflow within its limit. It is one round trip.
func (s *Store) admit(
	ctx context.Context, r *workflow.ClaimRequest, name string, defs []workflow.Definition, room int,
) (claimed []workflow.Claimed, next time.Duration, err error) {
	l, window := r.Limits[name], room
	if l.EachGroup > 0 || l.PerSecond > 0 {
		window = 4*room + 100
	}
	return s.claimAll(ctx, defs,
		call{s.sql.lock, []any{name, l.PerSecond}, each(func() {}, nil)},
		call{sql: s.sql.admit, args: []any{room, r.Process, r.Nonce, name, l.Runs, l.EachGroup, l.PerSecond, window}})
}
