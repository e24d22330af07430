package sqlite_test

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/sqlite/sqliteworkflow"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowtest"
)

var flows = contract{
	name: "workflow",
	open: func(db *sql.DB, o options) subject {
		return flowStore{sqliteworkflow.New(db, &sqliteworkflow.Options{Prefix: o.prefix})}
	},
	tables: []string{
		"holdfast_workflow_runs", "holdfast_workflow_inputs", "holdfast_workflow_steps", "holdfast_workflow_signals",
		"holdfast_workflow_definitions", "holdfast_workflow_groups", "holdfast_workflow_limits",
		"holdfast_workflow_subscriptions", "holdfast_beats",
	},
	longest:  "workflow_subscriptions",
	verdicts: []error{workflow.ErrNotFound, workflow.ErrKeyReused, workflow.ErrInvalid},
	missing: []missing{
		{"table", "DROP TABLE holdfast_workflow_runs", "table holdfast_workflow_runs", "Steps Beat Rest"},
		{
			"inputs", "DROP TABLE holdfast_workflow_inputs", "table holdfast_workflow_inputs",
			"Send Claim Note Write Steps Counts Sweep Beat Rest",
		},
		{
			"column", "ALTER TABLE holdfast_workflow_steps DROP COLUMN attempts",
			"column attempts of table holdfast_workflow_steps", "Start Send Claim Note Runs Counts Sweep Beat Rest",
		},
		{
			"definitions", "DROP TABLE holdfast_workflow_definitions", "table holdfast_workflow_definitions",
			"Send Claim Write Runs Steps Counts Beat Rest",
		},
		{"beats", "DROP TABLE holdfast_beats", "table holdfast_beats", "Start Send Claim Write Runs Steps Counts Sweep"},
		{
			"index", "DROP INDEX holdfast_workflow_runs_event", "index holdfast_workflow_runs_event",
			"Start Send Claim Note Write Steps Counts Sweep Beat Rest",
		},
	},
	unreachable: func(t *testing.T, s subject) { workflowtest.RunUnreachable(t, s.(flowStore)) },

	fill: `WITH n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
		INSERT INTO holdfast_workflow_runs (id, workflow, version, due, since, epoch, nonce, event, retention, started)
		SELECT printf('r%05d', i), 'order', 1, 4611686018427387904, i, 0, '', 'go', 30, 1000000000000000 + i FROM n;
		INSERT OR IGNORE INTO holdfast_workflow_inputs SELECT id, '{}' FROM holdfast_workflow_runs;
		INSERT OR IGNORE INTO holdfast_workflow_steps SELECT id, 'a', 0, 'run', 'done', 1, NULL, '', 1, 1, '', NULL
		FROM holdfast_workflow_runs;
		INSERT OR IGNORE INTO holdfast_workflow_signals (run, id, event, at, payload) SELECT id, 's', 'other', 1, '1'
		FROM holdfast_workflow_runs`,
	plans: map[string]string{
		"due <= ?3":            "COVERING INDEX holdfast_workflow_runs_due (workflow=? AND version=? AND status=? AND due<?)",
		"?3 >= due":            "workflow_runs_due (workflow=? AND version=? AND status=? AND (due,id)>(?,?) AND due<?)",
		"ORDER BY due LIMIT":   "holdfast_workflow_runs_due (workflow=? AND version=? AND status=? AND due<?)",
		"AND due IS NULL":      "holdfast_workflow_runs_due (workflow=? AND version=? AND status=? AND due=?)",
		"(SELECT max(version)": "COVERING INDEX holdfast_workflow_runs_due (workflow=?)",
		"'completed' AND workflow = ?5": "COVERING INDEX holdfast_workflow_runs_list (workflow=? AND status=? AND " +
			"started>? AND (started,id)<(?,?))",
		"status = ?5 AND workflow": "COVERING INDEX holdfast_workflow_runs_list (workflow=? AND status=?",
		"status = ?5 AND (started": "COVERING INDEX holdfast_workflow_runs_status (status=?",
		"'failed' AND (started":    "COVERING INDEX holdfast_workflow_runs_status (status=?",
		"expires < ?1":             "holdfast_workflow_runs_over (expires<?)",
		"event = ?4":               "COVERING INDEX holdfast_workflow_runs_event (event=?",
		"key >= ?3 AND key < ?4":   "holdfast_workflow_runs_key (workflow=? AND key>? AND key<?)",
		"SELECT run, input":        "(run=?)",
	},
	// The numbers of definitions and subscriptions do not grow with that of the runs. Counts reads an index.
	scans: []string{
		"SET epoch = epoch + 1, owner = '', due = ?1", // Raise
		"FROM holdfast_workflow_definitions WHERE at", "holdfast_workflow_definitions SET at", "GROUP BY",
		"FROM holdfast_beats", "FROM holdfast_workflow_subscriptions ORDER BY id",
	},
	lists: func(t *testing.T, of subject) []list {
		s := of.(flowStore)
		newest := func(i int) string { return fmt.Sprintf("r%05d", 999-i) }
		oldest := func(i int) string { return fmt.Sprintf("r%05d", i) }
		listed := func(q workflow.Query) func(func(string, error) bool) {
			return named(s.Runs(t.Context(), q), func(r workflow.Run) string { return r.ID })
		}
		send := func(name func(int) string, m workflow.Message) func(context.Context, int) error {
			return func(ctx context.Context, i int) error {
				m.Run, m.ID = name(i), "touch"
				return s.send(ctx, m, workflow.Applied, workflow.Consumed)
			}
		}
		wake := send(oldest, workflow.Message{Action: workflow.Signal, Event: "go"})
		return []list{
			{"waiting", listed(workflow.Query{Event: "go"}), 1000, oldest, wake},
			{"of a workflow", listed(workflow.Query{Workflow: "order"}), 1000, newest, nil},
			{"running", listed(workflow.Query{Status: workflow.Running}), 1000, newest, nil},
			{
				"all", listed(workflow.Query{}), 1000, newest,
				send(newest, workflow.Message{Action: workflow.Cancel}),
			},
		}
	},
	sweep: sweep{
		spoil: `UPDATE holdfast_workflow_runs SET status = 'completed', completed = 1, due = NULL,
				expires = iif(substr(id, 2) % 7 = 0, 9e15, 1)
			WHERE substr(id, 2) % 5 <> 0`,
		stays: func(i int) bool { return i%5 == 0 || i%7 == 0 },
		call: func(ctx context.Context, s subject, limit int) (int, error) {
			return s.(flowStore).Sweep(ctx, limit)
		},
		limited: true,
		left:    "SELECT count(*) FROM holdfast_workflow_runs",
		rest: `SELECT (SELECT count(*) FROM holdfast_workflow_steps WHERE run NOT IN (SELECT id FROM holdfast_workflow_runs))
			+ (SELECT count(*) FROM holdfast_workflow_inputs WHERE run NOT IN (SELECT id FROM holdfast_workflow_runs))
			+ (SELECT count(*) FROM holdfast_workflow_signals WHERE run NOT IN (SELECT id FROM holdfast_workflow_runs))`,
	},
	whole: []string{
		`SELECT count(*) FROM holdfast_workflow_runs WHERE id NOT IN (SELECT run FROM holdfast_workflow_inputs)`,
		`SELECT count(*) FROM holdfast_workflow_inputs WHERE run NOT IN (SELECT id FROM holdfast_workflow_runs)`,
		`SELECT count(*) FROM holdfast_workflow_runs
		WHERE mail <> (SELECT count(*) FROM holdfast_workflow_signals WHERE run = holdfast_workflow_runs.id)`,
		`SELECT count(*) FROM holdfast_workflow_runs
		WHERE status = 'completed' AND id NOT IN (SELECT run FROM holdfast_workflow_steps)`,
	},
	convicts: map[string]broken{
		"the smallest ids first":         {"claim-order-due", []string{"ORDER BY due, id LIMIT ?4", "ORDER BY id LIMIT ?4"}},
		"a row that is done is replaced": {"write-stays", []string{"WHERE (outcome = 'late' OR", "WHERE (outcome <> '' OR"}},
		"a row that comes again is replaced": {"rows-repeated", []string{
			"excluded.attempts > attempts", "excluded.attempts >= attempts",
		}},
		"a row that is replaced begins anew": {"rows-replaced", []string{
			"started = iif(outcome = 'late', excluded.started, started)", "started = excluded.started",
		}},
		"a deadline is lost": {"rows-replaced", []string{
			"coalesce(excluded.until, until)", "excluded.until",
		}},
		"a signal is not mail":   {"write-mail", []string{"SET mail = mail + 1", "SET mail = mail"}},
		"a signal does not wake": {"signal-consumed", []string{"due = min(due, ?2)", "due = due"}},
		"a lost answer of another": {"claim-again", []string{
			"owner = ?3 AND nonce = ?4", "(owner = ?3 OR nonce = ?4)",
		}},
		"a lease of a process that beats": {"claim-lease-beats", []string{"AND at >= ?3", "AND at >= ?3 AND at < 0"}},
		"tries are progress":              {"crashes-tries", []string{"outcome <> 'retrying' AND outcome <> 'late'", "outcome <> ''"}},
		"a key of all workflows":          {"start-key-scope", []string{"(workflow, key) WHERE", "(key) WHERE"}},
		"pages go by time":                {"runs-order", []string{"ORDER BY started DESC, id DESC", "ORDER BY started, id"}},
		"a pause forgets its fence": {"write-again", []string{
			"match = NULL,\n\t\t\tepoch = epoch + 1", "match = NULL",
		}},
	},
	violations: func(ctx context.Context, open func() subject, clause string) map[string]error {
		return workflowtest.Violations(ctx, func() workflow.Store { return open().(flowStore) }, clause)
	},
	statements: flowStatements,
	killed: func(db *sql.DB, say func(...any)) error {
		s := flowStore{sqliteworkflow.New(db, nil)}
		for n := 0; ; n++ {
			id := fmt.Sprintf("%d of %d", n, os.Getpid())
			if err := errors.Join(s.start(context.Background(), id), s.end(context.Background(), id)); err != nil {
				return err
			}
			say(id)
		}
	},
	check: func(t *testing.T, of subject, _ *sql.DB) func(string) {
		return func(last string) {
			var n, pid int
			_, err := fmt.Sscanf(last, "%d of %d", &n, &pid)
			want(t, err, nil)
			for i := range n + 1 {
				if now := of.(flowStore).now(t, fmt.Sprintf("%d of %d", i, pid)); now != "completed, steps [a]" {
					t.Errorf("run %d was acknowledged, and is %s", i, now)
				}
			}
		}
	},
	contend:   contendForFlows,
	processes: flowProcesses,
	torn: torn{
		n: 40, at: 20,
		write: func(ctx context.Context, s subject, i int, text string) error {
			_, err := s.(flowStore).Start(ctx, []workflow.NewRun{{
				ID: fmt.Sprintf("r%02d", i), Workflow: "order", Version: 1, Input: json.RawMessage(`"` + text + `"`),
			}})
			return err
		},
		check: checkTornInput,
	},
}

type flowStore struct{ *sqliteworkflow.Store }

var order = []workflow.Definition{{Workflow: "order", Version: 1}}

func owned(id string) workflow.NewRun {
	return workflow.NewRun{
		ID: id, Workflow: "order", Version: 1, Owner: "me", Fence: lock.Fence{Epoch: 1, Nonce: "start of " + id},
	}
}

// start starts a run that is owned.
func (s flowStore) start(ctx context.Context, id string) error {
	_, err := s.Start(ctx, []workflow.NewRun{owned(id)})
	return err
}

func step(name string) []workflow.Step {
	return []workflow.Step{{Name: name, Kind: workflow.KindStep, Outcome: workflow.Done, Attempts: 1}}
}

// write writes an entry of the first owner of a run.
func (s flowStore) write(ctx context.Context, id string, e workflow.Entry) error {
	e.Run, e.Fence = id, owned(id).Fence
	verdicts, err := s.Write(ctx, []workflow.Entry{e})
	return errors.Join(append(verdicts, err)...)
}

// end ends a run with a step.
func (s flowStore) end(ctx context.Context, id string) error {
	return s.write(ctx, id, workflow.Entry{
		Steps: step("a"), Next: workflow.End, Status: workflow.Completed, Mail: -1,
	})
}

// send sends a message, and wants one of the receipts.
func (s flowStore) send(ctx context.Context, m workflow.Message, wanted ...workflow.Receipt) error {
	receipts, err := s.Send(ctx, []workflow.Message{m})
	if err == nil && !slices.Contains(wanted, receipts[0]) {
		err = fmt.Errorf("%s of run %s is %s, want %s", m.Action, m.Run, receipts[0], wanted)
	}
	return err
}

// now tells what there is of a run.
func (s flowStore) now(t *testing.T, id string) string {
	for r, err := range s.Runs(t.Context(), workflow.Query{ID: id}) {
		want(t, err, nil)
		var steps []string
		for st, err := range s.Steps(t.Context(), id) {
			want(t, err, nil)
			steps = append(steps, st.Name)
		}
		return fmt.Sprintf("%s, steps %s", r.Status, steps)
	}
	return "nothing"
}

var flown atomic.Int64

func (s flowStore) all(ctx context.Context) map[string]error {
	errs := make(map[string]error)
	id := fmt.Sprint("all-", flown.Add(1))
	_, errs["Start"] = s.Start(ctx, []workflow.NewRun{{ID: id, Workflow: "order"}})
	_, errs["Send"] = s.Send(ctx, []workflow.Message{{
		Run: id, Action: workflow.Signal, ID: "s", Event: "e",
	}})
	q := workflow.ClaimRequest{Process: "me", Nonce: id, Definitions: order, Limit: 10}
	_, _, errs["Claim"] = s.Claim(ctx, q)
	q.Lease, q.MostCrashes, q.Definitions = time.Hour, 1, []workflow.Definition{{Workflow: "other", Version: 1}}
	_, _, errs["Note"] = s.Claim(ctx, q)
	_, errs["Write"] = s.Write(ctx, []workflow.Entry{{
		Run: id, Fence: lock.Fence{Epoch: 1, Nonce: id}, Steps: step("a"), Next: workflow.Park, Event: "e", Mail: -1,
	}})
	errs["Runs"] = cmp.Or(yielded(s.Runs(ctx, workflow.Query{})), yielded(s.Runs(ctx, workflow.Query{Event: "e"})))
	errs["Steps"] = yielded(s.Steps(ctx, id))
	_, errs["Counts"] = s.Counts(ctx)
	_, errs["Sweep"] = s.Sweep(ctx, 10)
	_, errs["Beat"] = s.Beat(ctx, id)
	errs["Rest"] = s.Rest(ctx, id)
	return errs
}

func (s flowStore) ready(t *testing.T) []call {
	ctx := t.Context()
	want(t, errors.Join(s.start(ctx, "0"), s.start(ctx, "1")), nil)
	_, err := s.Start(ctx, []workflow.NewRun{{ID: "due", Workflow: "order", Version: 1}})
	want(t, err, nil)
	cancel := workflow.Message{Run: "1", Action: workflow.Cancel}
	return []call{
		{do: func(ctx context.Context) error { return s.start(ctx, "2") }},
		{do: func(ctx context.Context) error { return s.end(ctx, "0") }},
		{do: func(ctx context.Context) error { return s.send(ctx, cancel, workflow.Applied, workflow.Over) }},
		{do: func(ctx context.Context) error { return s.claimOne(ctx, "due") }},
		{reads: true, do: func(ctx context.Context) error { return yielded(s.Runs(ctx, workflow.Query{})) }},
		{reads: true, do: func(ctx context.Context) error { return yielded(s.Steps(ctx, "0")) }},
		{reads: true, do: func(ctx context.Context) error { // nothing of it is due
			_, _, err := s.Claim(ctx, workflow.ClaimRequest{
				Process: "me", Nonce: "n", Limit: 1,
				Definitions: []workflow.Definition{{Workflow: "other", Version: 1}},
			})
			return err
		}},
	}
}

// claimOne claims a run that is due.
func (s flowStore) claimOne(ctx context.Context, id string) error {
	claimed, _, err := s.Claim(ctx, workflow.ClaimRequest{Process: "me", Nonce: id, Definitions: order, Limit: 1})
	if err == nil && (len(claimed) != 1 || claimed[0].ID != id) {
		err = fmt.Errorf("claimed are %d runs", len(claimed))
	}
	return err
}

func (s flowStore) cut(t *testing.T, _ *sql.DB, n int) cut {
	id := fmt.Sprint("r", n)
	c := cut{now: func() string { return s.now(t, id) }, before: "running, steps []"}
	if n%4 > 0 {
		want(t, s.start(t.Context(), id), nil)
	}
	switch n % 4 {
	case 0:
		c.before, c.after = "nothing", "running, steps []"
		c.do = func(ctx context.Context) error { return s.start(ctx, id) }
	case 1:
		c.after = "completed, steps [a]"
		c.do = func(ctx context.Context) error { return s.end(ctx, id) }
	case 2:
		c.after = "running, steps [e]"
		m := workflow.Message{Run: id, Action: workflow.Signal, ID: "s", Event: "e"}
		c.do = func(ctx context.Context) error { return s.send(ctx, m, workflow.Kept) }
	case 3:
		c.after = "cancelled, steps []"
		m := workflow.Message{Run: id, Action: workflow.Cancel}
		c.do = func(ctx context.Context) error { return s.send(ctx, m, workflow.Applied) }
	}
	return c
}

// An idle Claim is one SELECT. A run of n steps that is started with its owner is n + 1 transactions.
func flowStatements(t *testing.T, of subject) []executed {
	s := of.(flowStore)
	want(t, s.start(t.Context(), "owned"), nil)
	write := func(e workflow.Entry) func(context.Context) error {
		e.Mail = -1
		return func(ctx context.Context) error { return s.write(ctx, "owned", e) }
	}
	claim := func(q workflow.ClaimRequest) func(context.Context) error {
		q.Process, q.Nonce, q.Definitions = "me", "n", order
		return func(ctx context.Context) error { _, _, err := s.Claim(ctx, q); return err }
	}
	wake := workflow.Message{Run: "owned", Action: workflow.Signal, ID: "s", Event: "e"}
	lightly := func(words string) string {
		return "PRAGMA PRAGMA PRAGMA BEGIN UPDATE " + words + " COMMIT PRAGMA PRAGMA"
	}
	return []executed{
		{"Claim of nothing", "SELECT", claim(workflow.ClaimRequest{Limit: 5})},
		{"Start", "BEGIN UPDATE INSERT INSERT COMMIT", func(ctx context.Context) error { return s.start(ctx, "new") }},
		{
			"Start once more", "BEGIN UPDATE INSERT SELECT SELECT COMMIT",
			func(ctx context.Context) error { return s.start(ctx, "new") },
		},
		{"a step", "BEGIN UPDATE SELECT INSERT COMMIT", write(workflow.Entry{Steps: step("a")})},
		{
			"a wait", "BEGIN UPDATE SELECT INSERT UPDATE COMMIT",
			write(workflow.Entry{Steps: step("b"), Next: workflow.Park, Event: "e"}),
		},
		{"a signal", "BEGIN UPDATE SELECT INSERT UPDATE COMMIT", func(ctx context.Context) error {
			return s.send(ctx, wake, workflow.Consumed)
		}},
		{
			"Claim of one", "SELECT SELECT " + lightly("SELECT SELECT UPDATE") + " SELECT",
			claim(workflow.ClaimRequest{Limit: 1}),
		},
		{"Claim of a lost answer", "SELECT", claim(workflow.ClaimRequest{Again: "nothing", Limit: 5})},
		{
			"Claim of dead processes", "SELECT " + lightly("INSERT SELECT"),
			claim(workflow.ClaimRequest{Lease: time.Hour, MostCrashes: 5, Limit: 5}),
		},
		{"Steps", "SELECT", func(ctx context.Context) error { return yielded(s.Steps(ctx, "owned")) }},
		{"Runs", "SELECT SELECT", func(ctx context.Context) error {
			return yielded(s.Runs(ctx, workflow.Query{Workflow: "order"}))
		}},
		{"Counts", "SELECT", func(ctx context.Context) error { _, err := s.Counts(ctx); return err }},
		{"Sweep", "SELECT SELECT SELECT SELECT SELECT", func(ctx context.Context) error {
			_, err := s.Sweep(ctx, 100)
			return err
		}},
	}
}

// If SQLite itself cannot read the input of a run, this run is damaged. It can be cancelled. It is held when it is
// claimed, so that it is in nobody's way.
func checkTornInput(t *testing.T, of subject, torn torn, _ string) {
	s := of.(flowStore)
	at := fmt.Sprintf("r%02d", torn.at)
	for _, q := range []workflow.Query{{}, {Workflow: "order"}, {Status: workflow.Running}, {ID: at}} {
		ids, damaged := damagedIn(t, named(s.Runs(t.Context(), q), func(r workflow.Run) string { return r.ID }))
		if len(ids) != torn.n && q.ID == "" || !slices.Equal(damaged, []string{at}) {
			t.Errorf("%+v: %q, of which damaged are %q", q, ids, damaged)
		}
	}
	_, err := s.Start(t.Context(), []workflow.NewRun{{ID: at, Workflow: "order", Version: 1}})
	want(t, err, workflow.ErrDamaged)
	claimed, _, err := s.Claim(t.Context(), workflow.ClaimRequest{
		Process: "me", Nonce: "n", Definitions: order, Limit: torn.n,
	})
	if err != nil || len(claimed) != torn.n-1 {
		t.Errorf("claimed are %d runs, %v", len(claimed), err)
	}
	for _, c := range claimed {
		if c.ID == at || !json.Valid(c.Input) {
			t.Errorf("run %s is claimed with the input %.20s", c.ID, c.Input)
		}
	}
	for r, err := range s.Runs(t.Context(), workflow.Query{ID: at}) {
		want(t, err, workflow.ErrDamaged)
		if r.Hold != workflow.Drifted || r.Workflow != "order" {
			t.Errorf("the damaged run is %+v", r)
		}
	}
	want(t, s.send(t.Context(), workflow.Message{Run: at, Action: workflow.Cancel}, workflow.Applied), nil)
}

// If SQLite itself cannot read what a step has returned, this step is damaged. The others can be read, and the run can
// be ended.
func TestTornStep(t *testing.T) {
	t.Parallel()
	c := flows
	c.torn.write = func(ctx context.Context, of subject, i int, text string) error {
		s := of.(flowStore)
		if i == 0 {
			if err := s.start(ctx, "r"); err != nil {
				return err
			}
		}
		st := step(fmt.Sprintf("s%02d", i))
		st[0].Output = json.RawMessage(`"` + text + `"`)
		return s.write(ctx, "r", workflow.Entry{Steps: st, Mail: -1})
	}
	s := c.tear(t, sqlitetest.File(t), 30, 11).(flowStore)
	names, damaged := damagedIn(t, named(s.Steps(t.Context(), "r"), func(st workflow.Step) string { return st.Name }))
	if len(names) != 30 || !slices.IsSorted(names) || strings.Join(damaged, " ") != "s11" {
		t.Errorf("the steps are %q, of which damaged are %q", names, damaged)
	}
	want(t, s.end(t.Context(), "r"), nil)
}
