package provider

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver of the file of payments
)

// A Payment is a refund that was paid.
type Payment struct {
	// Key is the idempotency key of the request.
	Key     string    `json:"key"`
	Order   string    `json:"order"`
	Cents   int       `json:"cents"`
	Receipt string    `json:"receipt"`
	At      time.Time `json:"at"`

	// Asked counts the requests with this key. The first has paid.
	Asked int `json:"asked"`
}

// A Mode is a way in which a provider behaves.
type Mode string

const (
	// OK pays.
	OK Mode = "ok"
	// Slow pays after some seconds.
	Slow Mode = "slow"
	// Decline answers 402 and pays nothing.
	Decline Mode = "decline"
	// Fail answers 503 to everything, and pays nothing.
	Fail Mode = "fail"
	// Timeout pays and does not answer. It does not answer other questions either.
	Timeout Mode = "timeout"
	// Lost pays, and cuts the connection in place of an answer. Other questions are answered.
	Lost Mode = "lost"
)

// Modes are all modes.
var Modes = []Mode{OK, Slow, Decline, Fail, Timeout, Lost}

// Known reports whether m is a mode.
func (m Mode) Known() bool { return slices.Contains(Modes, m) }

// A Server is the provider. Several servers may share a file.
type Server struct {
	// Delay is how long Slow waits. 0 means 3s.
	Delay time.Duration

	db   *sql.DB
	mode atomic.Pointer[Mode]
	mux  *http.ServeMux
}

const schema = `
	CREATE TABLE IF NOT EXISTS payments (
		key TEXT PRIMARY KEY, refunded TEXT NOT NULL, cents INTEGER NOT NULL, receipt TEXT NOT NULL,
		asked INTEGER NOT NULL, at TEXT NOT NULL)`

// Open returns a server that keeps its payments in file.
func Open(ctx context.Context, file string) (*Server, error) {
	if err := private(file); err != nil {
		return nil, err
	}
	const settings = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate"
	db, err := sql.Open("sqlite", "file:"+file+settings)
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, schema); err != nil {
		return nil, errors.Join(fmt.Errorf("payments in %s: %w", file, err), db.Close())
	}
	s := &Server{db: db, mux: http.NewServeMux()}
	s.SetMode(OK)
	s.mux.HandleFunc("POST /refunds", s.refund)
	s.mux.HandleFunc("GET /refunds/{key}", s.find)
	s.mux.HandleFunc("GET /payments", s.list)
	s.mux.HandleFunc("GET /mode", s.tell)
	s.mux.HandleFunc("PUT /mode", s.change)
	return s, nil
}

// private makes the file, for its owner alone. The driver would let all read it, and an earlier version did.
func private(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Close())
}

// Close closes the file.
func (s *Server) Close() error { return s.db.Close() }

// SetMode changes how the server behaves from now on.
func (s *Server) SetMode(m Mode) { s.mode.Store(&m) }

// Mode returns how the server behaves.
func (s *Server) Mode() Mode { return *s.mode.Load() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refund pays, once for each key.
func (s *Server) refund(w http.ResponseWriter, r *http.Request) {
	var asked Payment
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&asked)
	asked.Key = r.Header.Get("Idempotency-Key")
	if err != nil || asked.Key == "" || asked.Order == "" || asked.Cents <= 0 {
		http.Error(w, "a refund needs Idempotency-Key, order and cents", http.StatusBadRequest)
		return
	}
	mode := s.Mode()
	switch mode {
	case Fail:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	case Decline:
		http.Error(w, "declined", http.StatusPaymentRequired)
		return
	case Slow:
		if !wait(r.Context(), s.delay()) {
			return
		}
	}
	// The money moves although the client may have gone.
	paid, err := s.pay(context.WithoutCancel(r.Context()), asked)
	switch {
	case err != nil:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case mode == Timeout:
		<-r.Context().Done()
	case mode == Lost:
		panic(http.ErrAbortHandler) // the connection is cut
	default:
		answer(w, paid)
	}
}

func (s *Server) delay() time.Duration {
	if s.Delay > 0 {
		return s.Delay
	}
	return 3 * time.Second
}

// wait waits for d. It reports false if ctx has ended before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pay returns the payment with the key of p. If there is none, p is it.
func (s *Server) pay(ctx context.Context, p Payment) (paid Payment, err error) {
	const text = `
		INSERT INTO payments (key, refunded, cents, receipt, asked, at) VALUES (?1, ?2, ?3, ?4, 1, ?5)
		ON CONFLICT (key) DO UPDATE SET asked = asked + 1
		RETURNING key, refunded, cents, receipt, asked, at`
	receipt := "R-" + p.Key[:min(8, len(p.Key))]
	now := time.Now().UTC().Format(time.RFC3339Nano)
	return scan(s.db.QueryRowContext(ctx, text, p.Key, p.Order, p.Cents, receipt, now))
}

func scan(row interface{ Scan(...any) error }) (p Payment, err error) {
	var at string
	if err := row.Scan(&p.Key, &p.Order, &p.Cents, &p.Receipt, &p.Asked, &at); err != nil {
		return p, err
	}
	p.At, err = time.Parse(time.RFC3339Nano, at)
	return p, err
}

const columns = "SELECT key, refunded, cents, receipt, asked, at FROM payments "

// find says what was paid with a key.
func (s *Server) find(w http.ResponseWriter, r *http.Request) {
	switch s.Mode() {
	case Fail:
		http.Error(w, "out of order", http.StatusServiceUnavailable)
		return
	case Timeout:
		<-r.Context().Done()
		return
	}
	p, err := scan(s.db.QueryRowContext(r.Context(), columns+"WHERE key = ?1", r.PathValue("key")))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		http.NotFound(w, r)
	case err != nil:
		http.Error(w, "out of order", http.StatusInternalServerError)
	default:
		answer(w, p)
	}
}

// list lists what was paid, for those who watch the demonstration.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	all, err := s.Payments(r.Context())
	if err != nil {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	answer(w, all)
}

// Payments returns all payments, oldest first.
func (s *Server) Payments(ctx context.Context) ([]Payment, error) {
	rows, err := s.db.QueryContext(ctx, columns+"ORDER BY at, key")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := []Payment{}
	for rows.Next() {
		p, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, rows.Err()
}

type modeJSON struct {
	Mode Mode `json:"mode"`
}

func (s *Server) tell(w http.ResponseWriter, _ *http.Request) { answer(w, modeJSON{s.Mode()}) }

func (s *Server) change(w http.ResponseWriter, r *http.Request) {
	var to modeJSON
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10)).Decode(&to)
	if err != nil || !to.Mode.Known() {
		http.Error(w, "no such mode", http.StatusBadRequest)
		return
	}
	s.SetMode(to.Mode)
	answer(w, to)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone asks again
}
