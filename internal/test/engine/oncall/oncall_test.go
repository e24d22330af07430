package oncall_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// zeros are the series of counters that are there before anything has happened. A rate does not see that a counter
// appears with 1.
var zeros = []string{
	`holdfast_turns_total{holdfast_outcome="settled"}`,
	`holdfast_turns_total{holdfast_outcome="replayed"}`,
	`holdfast_turns_total{holdfast_outcome="failed"}`,
	`holdfast_turns_total{holdfast_outcome="left"}`,
	`holdfast_turns_total{holdfast_outcome="refused"}`,
	`holdfast_turns_total{holdfast_outcome="suspended"}`,
	`holdfast_turn_errors_total{error_type="ErrUnavailable"}`,
	`holdfast_usage_cost_total`,
	`holdfast_events_dropped_total`,
	`holdfast_functions_stuck`,
}

// happened are values after the test has played.
var happened = map[string]float64{
	`holdfast_turns_total{holdfast_outcome="settled"}`:                 15,
	`holdfast_turns_total{holdfast_outcome="failed"}`:                  1,
	`holdfast_turns_total{holdfast_outcome="left"}`:                    1,
	`holdfast_turns_total{holdfast_outcome="suspended"}`:               1,
	`holdfast_turn_errors_total{error_type=~".*errors.+String"}`:       1,
	`holdfast_runs{holdfast_status="suspended"}`:                       1,
	`holdfast_runs{holdfast_status="parked"}`:                          1,
	`holdfast_runs{holdfast_status=~"running|waiting|damaged"}`:        0,
	`holdfast_deliveries_owed`:                                         1,
	`holdfast_deliveries_parked`:                                       1,
	`holdfast_effects_in_doubt`:                                        1,
	`holdfast_answers`:                                                 1,
	`holdfast_turn_duration_seconds_count{holdfast_outcome="settled"}`: 15,
	`gen_ai_client_token_usage_sum{gen_ai_token_type="input"}`:         13 * 812,
}

// ages are gauges that have to be above 0.
var ages = []string{
	`holdfast_runs_age_seconds{holdfast_status="suspended"}`,
	`holdfast_runs_age_seconds{holdfast_status="parked"}`,
	`holdfast_effects_in_doubt_age_seconds`,
	`holdfast_answers_age_seconds`,
	`holdfast_events_dropped_total`,
}

// firing are the rules whose expressions are true of what the test has played. Those of the others are not.
var firing = map[string]bool{
	"HoldfastRunsParked": true, "HoldfastRunsSuspended": true, "HoldfastDeliveriesOwed": true,
	"HoldfastDeliveriesParked": true, "HoldfastTurnsLeft": true, "HoldfastTurnsFail": true,
	"HoldfastEventsDropped": true,
}

// A program on PostgreSQL plays what an operator has to notice. Everything that the dashboard and the rules name is in
// what it reports over HTTP. With Prometheus on this machine, each query is put to it.
func TestOnCall(t *testing.T) {
	dashboard, alerts := panels(t), rules(t)
	url := testenv.PostgresURL(t)
	s := startProgram(t, url)
	before := s.until("the gauges of the backlog", func(all scrape) bool {
		return all.sum("holdfast_runs") == 0 && all.sum("holdfast_answers") == 0
	})
	for _, text := range zeros {
		if got := before.sum(text); got != 0 {
			t.Errorf("before anything has happened %s is %v, want 0", text, got)
		}
	}
	s.play("first", hello, "settled") // a histogram has no series before its first value
	before = s.scrape()
	watching := watch(t, s)
	slowest := s.playAll(url)
	after := s.until("what has happened", func(all scrape) bool {
		for text, want := range happened {
			if all.sum(text) != want {
				return false
			}
		}
		return true
	})
	for _, text := range ages {
		if got := after.sum(text); !(got > 0) || got > 600 && strings.Contains(text, "age") {
			t.Errorf("%s is %v", text, got)
		}
	}
	for _, q := range append(dashboard, alerts...) {
		if what := after.missing(q.expr); what != nil {
			t.Errorf("%s: nothing reports %q of %s", q.title, what, q.expr)
		}
	}
	// The boundaries are a factor of 2.5 apart at most.
	least, most := helloTakes.Seconds()/2.5, slowest.Seconds()*2.5
	for _, q := range []float64{0.5, 0.99} {
		const settled = `{holdfast_outcome="settled"}`
		got := quantile(q, before, after, "holdfast_turn_duration_seconds_bucket", settled)
		if math.IsNaN(got) || got < least || got > most {
			t.Errorf("quantile %v of turns of %v to %v is %vs", q, helloTakes, slowest, got)
		}
		t.Logf("quantile %v of turns of %v to %v is %.4fs", q, helloTakes, slowest, got)
	}
	watching.judge(dashboard, alerts, least, most)
}

// playAll plays what has happened. It returns how long the slowest turn that settled took for its client.
func (s service) playAll(url string) (slowest time.Duration) {
	s.t.Helper()
	play := func(session, text, want string) {
		began := time.Now()
		if s.play(session, text, want); want == "settled" {
			slowest = max(slowest, time.Since(began))
		}
	}
	for i := range 12 {
		play(fmt.Sprint("plain", i), hello, "settled")
	}
	for _, one := range []struct{ text, want string }{
		{fail, "failed"}, {pay, "suspended"}, {owe, "settled"}, {left, "left"}, {noise, "settled"},
	} {
		play(one.text, one.text, one.want)
	}
	pool, err := pgxpool.New(s.t.Context(), url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer pool.Close()
	// The session has a run in flight, so the answer waits.
	it := inbox.Item{Key: inbox.Key{Orchestrator: botName, Session: pay}, Kind: inbox.Answer, ID: "q1", By: "ann"}
	if _, err := pginbox.New(pool, nil).Post(s.t.Context(), it); err != nil {
		s.t.Fatal(err)
	}
	return slowest
}
