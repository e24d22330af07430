package workflow_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/pulse"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/workflow"
)

// onGrants is onPostgres with each call, and with the table that it shares with the other stores.
func onGrants() pgtest.Kind[workflow.Store] {
	k := onPostgres
	k.Calls, k.Tables = everyCall, append([]string{"beats"}, k.Tables...)
	return k
}

var mine = lock.Fence{Epoch: 1, Nonce: "n"}

// begun is a run that a owns.
func begun(id string) workflow.NewRun {
	return workflow.NewRun{ID: id, Workflow: "w", Version: 1, Input: json.RawMessage(`{"n":1}`), Owner: "a", Fence: mine}
}

func stepOf(name string) workflow.Step {
	return workflow.Step{Name: name, Kind: workflow.KindStep, Outcome: workflow.Done, Output: json.RawMessage("1")}
}

func entryOf(run string, next workflow.Next, steps ...workflow.Step) workflow.Entry {
	e := workflow.Entry{Run: run, Fence: mine, Next: next, Steps: steps, Mail: -1}
	if next == workflow.End {
		e.Status = workflow.Completed
	}
	return e
}

func claimOf(process string) workflow.ClaimRequest {
	return workflow.ClaimRequest{
		Process: process, Nonce: "n", Limit: 10, MostCrashes: 5,
		Definitions: []workflow.Definition{{Workflow: "w", Version: 1}},
	}
}

func signalTo(run, id string) workflow.Message {
	return workflow.Message{Run: run, Action: workflow.Signal, ID: id, Event: "e", Payload: json.RawMessage(`{"n":1}`)}
}

// everyCall calls every method in every way, and returns the errors by name.
func everyCall(ctx context.Context, s workflow.Store) map[string]error {
	errs := make(map[string]error)
	claim := func(name string, set func(r *workflow.ClaimRequest)) {
		r := claimOf("b")
		set(&r)
		_, _, errs[name] = s.Claim(ctx, r)
	}
	write := func(name string, e workflow.Entry) { _, errs[name] = s.Write(ctx, []workflow.Entry{e}) }
	send := func(name string, m workflow.Message) { _, errs[name] = s.Send(ctx, []workflow.Message{m}) }
	_, errs["Start"] = s.Start(ctx, []workflow.NewRun{
		begun("r"), {ID: "due", Workflow: "w"}, {ID: "limited", Workflow: "w"},
	})
	send("Send", signalTo("r", "1"))
	st := stepOf("s")
	st.Signal = "1"
	write("Write", entryOf("r", workflow.Stay, st))
	write("Record", entryOf("r", workflow.Record, stepOf("late")))
	claim("Claim within", func(r *workflow.ClaimRequest) {
		r.Limit, r.Limits = 1, map[string]workflow.Limit{"w": {PerSecond: 1000}}
	})
	claim("Claim", func(*workflow.ClaimRequest) {})
	claim("Claim from", func(r *workflow.ClaimRequest) { r.From = "a" })
	claim("Claim again", func(r *workflow.ClaimRequest) { r.Again = "n" })
	claim("Claim of a lease", func(r *workflow.ClaimRequest) { r.Lease = time.Microsecond })
	claim("Claim of nothing", func(r *workflow.ClaimRequest) { r.Lease, r.Definitions = time.Microsecond, nil })
	for _, a := range []workflow.Action{workflow.Pause, workflow.Resume, workflow.Cancel} {
		send(map[workflow.Action]string{
			workflow.Pause: "Pause", workflow.Resume: "Resume", workflow.Cancel: "Cancel",
		}[a], workflow.Message{Run: "r", Action: a})
	}
	_, errs["Beat"] = s.(lock.Beater).Beat(ctx, "a")
	errs["Rest"] = s.(lock.Beater).Rest(ctx, "a")
	_, errs["Sweep"] = s.Sweep(ctx, 10)
	_, errs["Counts"] = s.Counts(ctx)
	errs["Subscribe"] = s.Subscribe(ctx, workflow.Subscription{ID: "s", Pattern: "#", Workflow: "w"})
	_, errs["Subscriptions"] = s.Subscriptions(ctx)
	errs["Unsubscribe"] = s.Unsubscribe(ctx, "s")
	for _, err := range s.Runs(ctx, workflow.Query{}) {
		errs["Runs"] = err
	}
	for _, err := range s.Steps(ctx, "r") {
		errs["Steps"] = err
	}
	return errs
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestPostgresGrantsSuffice(t *testing.T) { onGrants().TestGrantsSuffice(t) }

func TestPostgresGrantsNeedAll(t *testing.T) { onGrants().TestGrantsNeedAll(t) }

// A process beats once for all that it owns in a database.
func TestPostgresOnePulse(t *testing.T) {
	db := postgres.New(nil, nil)
	if pulse.Of(db.Workflows()) != pulse.Of(db.Checkpoints()) {
		t.Error("the workflows have a pulse of their own")
	}
}
