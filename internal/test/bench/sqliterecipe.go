package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"
)

// A sqliteRecipe is the [recipe] in SQLite's words, with prepared statements.
type sqliteRecipe struct {
	db     *sql.DB
	states []json.RawMessage
	keep   int

	load, insert, prune *sql.Stmt
}

const sqliteRecipeSchema = `
	CREATE TABLE recipe (
		orchestrator_name TEXT NOT NULL,
		session_id TEXT NOT NULL,
		turn_index INTEGER NOT NULL,
		state TEXT NOT NULL,
		last_route TEXT,
		signature TEXT NOT NULL,
		version TEXT,
		saved_at INTEGER NOT NULL,
		PRIMARY KEY (orchestrator_name, session_id, turn_index)
	);
	CREATE INDEX recipe_saved_at ON recipe (saved_at);
	CREATE INDEX recipe_lookup ON recipe (orchestrator_name, session_id, turn_index DESC);`

const (
	sqliteRecipeLoad = `
		SELECT turn_index, state, signature
		FROM recipe
		WHERE orchestrator_name = ? AND session_id = ?
		ORDER BY turn_index DESC
		LIMIT 1`
	sqliteRecipeInsert = `
		INSERT INTO recipe (orchestrator_name, session_id, turn_index, state, last_route, signature, version, saved_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqliteRecipePrune = `
		DELETE FROM recipe
		WHERE orchestrator_name = ? AND session_id = ? AND turn_index < ?`
)

// newSQLiteRecipe prepares statements that end with the database.
func newSQLiteRecipe(ctx context.Context, db *sql.DB, states []json.RawMessage, keep int) (*sqliteRecipe, error) {
	if _, err := db.ExecContext(ctx, sqliteRecipeSchema); err != nil {
		return nil, err
	}
	load, err1 := db.PrepareContext(ctx, sqliteRecipeLoad)
	insert, err2 := db.PrepareContext(ctx, sqliteRecipeInsert)
	prune, err3 := db.PrepareContext(ctx, sqliteRecipePrune)
	return &sqliteRecipe{db, states, keep, load, insert, prune}, errors.Join(err1, err2, err3)
}

// fillAll inserts the turns of sessions numbered from 0.
func (r *sqliteRecipe) fillAll(ctx context.Context, sessions, turns int) error {
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	insert := tx.StmtContext(ctx, r.insert)
	for i := range sessions {
		for turn := range turns {
			if err := r.settle(ctx, insert, sessionName(i), turn); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

func (r *sqliteRecipe) settle(ctx context.Context, insert *sql.Stmt, session string, turn int) error {
	_, err := insert.ExecContext(ctx,
		botName, session, turn, string(r.states[turn%len(r.states)]), "refund", signature, "1", time.Now().UnixMicro())
	return err
}

func (r *sqliteRecipe) play(ctx context.Context, session string) error {
	var last int
	var state, signature string
	if err := r.load.QueryRowContext(ctx, botName, session).Scan(&last, &state, &signature); err != nil {
		return err
	}
	if err := r.settle(ctx, r.insert, session, last+1); err != nil {
		return err
	}
	_, err := r.prune.ExecContext(ctx, botName, session, last+1-r.keep)
	return err
}
