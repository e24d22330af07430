package bot

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// Messages keeps the conversations and what the bot remembers, in tables of the application: see package migrations of
// the program. It works on PostgreSQL and SQLite.
type Messages struct {
	db *sql.DB
	// text returns a statement in the dialect of the database.
	text func(statement string) string
}

// NewMessages returns Messages on db. postgres says that db is a PostgreSQL, and no SQLite.
func NewMessages(db *sql.DB, postgres bool) *Messages {
	if postgres {
		return &Messages{db, func(statement string) string { return statement }}
	}
	return &Messages{db, func(statement string) string { return strings.ReplaceAll(statement, "$", "?") }}
}

const (
	addMessage = `INSERT INTO messages (session, turn, place, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (session, turn, place) DO NOTHING`
	selectMessages = `SELECT body FROM messages WHERE session = $1 ORDER BY turn, place`
	dropMessages   = `DELETE FROM messages WHERE session = $1 AND turn <= $2`
	copyMessages   = `INSERT INTO messages (session, turn, place, body)
		SELECT $1, 0, row_number() OVER (ORDER BY turn, place), body FROM messages WHERE session = $2 AND turn <= $3
		ON CONFLICT (session, turn, place) DO NOTHING`
	addMemory  = `INSERT INTO memories (session, id, turn, text) VALUES ($1, $2, $3, $4) ON CONFLICT (session, id) DO NOTHING`
	recall     = `SELECT text FROM memories WHERE session = $1 ORDER BY turn DESC, id LIMIT $2`
	copyMemory = `INSERT INTO memories (session, id, turn, text)
		SELECT $1, id, 0, text FROM memories WHERE session = $2 AND turn <= $3 ON CONFLICT (session, id) DO NOTHING`
)

// Of returns the messages of a session, oldest first.
func (m *Messages) Of(ctx context.Context, session string) ([]message.Message, error) {
	rows, err := m.db.QueryContext(ctx, m.text(selectMessages), session)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []message.Message
	for rows.Next() {
		var body string
		if err := rows.Scan(&body); err != nil {
			return nil, err
		}
		var one message.Message
		if err := json.Unmarshal([]byte(body), &one); err != nil && !errors.Is(err, message.ErrUnknownKind) {
			return nil, fmt.Errorf("a message of session %q: %w", session, err)
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// Add stores the messages of a turn. Messages that are there stay as they are.
func (m *Messages) Add(ctx context.Context, session string, turn int, messages ...message.Message) error {
	return m.together(ctx, func(tx *sql.Tx) error { return m.add(ctx, tx, session, turn, messages...) })
}

func (m *Messages) add(ctx context.Context, tx *sql.Tx, session string, turn int, messages ...message.Message) error {
	for place, one := range messages {
		one.Turn = turn
		body, err := json.Marshal(one)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, m.text(addMessage), session, turn, place, string(body)); err != nil {
			return err
		}
	}
	return nil
}

// Replace puts a summary in the place of all messages up to a turn, or changes nothing.
func (m *Messages) Replace(ctx context.Context, session string, through int, summary message.Message) error {
	return m.together(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, m.text(dropMessages), session, through); err != nil {
			return err
		}
		return m.add(ctx, tx, session, through, summary)
	})
}

// Remember keeps what is to be known of the customer. The same id is kept once.
func (m *Messages) Remember(ctx context.Context, session, id string, turn int, text string) error {
	_, err := m.db.ExecContext(ctx, m.text(addMemory), session, id, turn, text)
	return err
}

// Recall returns what was remembered last, newest first.
func (m *Messages) Recall(ctx context.Context, session string, limit int) ([]string, error) {
	rows, err := m.db.QueryContext(ctx, m.text(recall), session, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, rows.Err()
}

// Fork gives session to what session from has up to a turn. It becomes turn 0, as that of
// [orchestrator.Orchestrator.Fork].
func (m *Messages) Fork(ctx context.Context, from string, turn int, to string) error {
	return m.together(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, m.text(copyMessages), to, from, turn); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, m.text(copyMemory), to, from, turn)
		return err
	})
}

// Delete forgets a session.
func (m *Messages) Delete(ctx context.Context, session string) error {
	return m.together(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"messages", "memories"} {
			if _, err := tx.ExecContext(ctx, m.text("DELETE FROM "+table+" WHERE session = $1"), session); err != nil {
				return err
			}
		}
		return nil
	})
}

// together runs f in a transaction.
func (m *Messages) together(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := m.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// deliver stores the conversation, and what is to be remembered. It comes at least once for each turn.
func (b *bot[S]) deliver(ctx context.Context, r *orchestrator.Result[S]) error {
	s := b.at(&r.State)
	asked := message.User(r.Input.Text)
	if s.Approval != nil {
		asked = message.System(r.Input.Text)
	}
	if err := b.Messages.Add(ctx, r.Session, r.Turn, asked, message.Assistant(s.Reply)); err != nil {
		return err
	}
	if s.Decision != Paid {
		return nil
	}
	return b.Messages.Remember(ctx, r.Session, r.RunID, r.Turn, s.paid())
}

// compact replaces the older turns by a summary. After a crash it gets the same range again.
func compact(ctx context.Context, o Options, r orchestrator.Range) (used orchestrator.Usage, err error) {
	all, err := o.Messages.Of(ctx, r.Session)
	if err != nil {
		return used, err
	}
	old := slices.DeleteFunc(all, func(m message.Message) bool { return m.Turn > r.Through })
	if len(old) == 0 || len(old) == 1 && old[0].ID == r.ID {
		return used, nil
	}
	text, used, err := o.Model.Summarize(ctx, old)
	if err != nil {
		return used, err
	}
	summary := message.System(text)
	summary.ID = r.ID
	return used, o.Messages.Replace(ctx, r.Session, r.Through, summary)
}
