package main

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A recipe does on PostgreSQL the same as the guide that this module replaces. It loads the newest row, inserts the
// next and prunes, as three round trips. It has nothing that keeps two processes apart.
type recipe struct {
	pool   *pgxpool.Pool
	states []json.RawMessage
	keep   int
}

// This is the guide's own DDL.
const recipeSchema = `
	CREATE TABLE warlock_orchestrator_sessions (
		orchestrator_name TEXT NOT NULL,
		session_id TEXT NOT NULL,
		turn_index INTEGER NOT NULL,
		state JSONB NOT NULL,
		last_route TEXT,
		signature TEXT NOT NULL,
		version TEXT,
		summarized_through INTEGER,
		lock_acquired_at TIMESTAMPTZ,
		lock_expires_at TIMESTAMPTZ,
		saved_at TIMESTAMPTZ NOT NULL DEFAULT now(),
		PRIMARY KEY (orchestrator_name, session_id, turn_index)
	);
	CREATE INDEX idx_warlock_orchestrator_sessions_saved_at ON warlock_orchestrator_sessions (saved_at);
	CREATE INDEX idx_warlock_orchestrator_sessions_lookup
		ON warlock_orchestrator_sessions (orchestrator_name, session_id, turn_index DESC);`

const (
	recipeLoad = `
		SELECT turn_index, state, last_route, signature, version, summarized_through, saved_at
		FROM warlock_orchestrator_sessions
		WHERE orchestrator_name = $1 AND session_id = $2
		ORDER BY turn_index DESC
		LIMIT 1`
	recipeInsert = `
		INSERT INTO warlock_orchestrator_sessions
			(orchestrator_name, session_id, turn_index, state, last_route, signature, version)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`
	recipePrune = `
		DELETE FROM warlock_orchestrator_sessions
		WHERE orchestrator_name = $1 AND session_id = $2 AND turn_index < $3`
)

// fillAll inserts the turns of sessions numbered from 0.
func (r recipe) fillAll(ctx context.Context, sessions, turns int) error {
	if _, err := r.pool.Exec(ctx, recipeSchema); err != nil {
		return err
	}
	for i := range sessions {
		_, err := r.pool.Exec(ctx, `
			INSERT INTO warlock_orchestrator_sessions
				(orchestrator_name, session_id, turn_index, state, last_route, signature, version)
			SELECT $1, $2, turn, ($4::text[])[1 + turn % $5]::jsonb, 'refund', $6, '1' FROM generate_series(0, $3 - 1) AS turn`,
			botName, sessionName(i), turns, texts(r.states), len(r.states), signature)
		if err != nil {
			return err
		}
	}
	return nil
}

func (r recipe) play(ctx context.Context, session string) error {
	turn, err := r.load(ctx, session)
	if err != nil {
		return err
	}
	return r.settle(ctx, session, turn+1)
}

func (r recipe) load(ctx context.Context, session string) (turn int, err error) {
	var row struct {
		state          []byte
		route, version *string
		signature      string
		summarized     *int
		savedAt        any
	}
	err = r.pool.QueryRow(ctx, recipeLoad, botName, session).
		Scan(&turn, &row.state, &row.route, &row.signature, &row.version, &row.summarized, &row.savedAt)
	return turn, err
}

func (r recipe) settle(ctx context.Context, session string, turn int) error {
	_, err := r.pool.Exec(ctx, recipeInsert, botName, session, turn, string(r.states[turn%len(r.states)]), "refund",
		signature, "1")
	if err != nil {
		return err
	}
	_, err = r.pool.Exec(ctx, recipePrune, botName, session, turn-r.keep)
	return err
}

func texts(states []json.RawMessage) []string {
	list := make([]string, len(states))
	for i, state := range states {
		list[i] = string(state)
	}
	return list
}
