package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// A runJSON is a run in flight.
type runJSON struct {
	Bot      string    `json:"bot"`
	Session  string    `json:"session"`
	Run      string    `json:"run,omitempty"`
	State    string    `json:"state"`
	Turn     int       `json:"turn"`
	Attempt  int       `json:"attempt"`
	Owner    string    `json:"owner,omitempty"`
	Age      float64   `json:"ageSeconds"`
	Saved    time.Time `json:"saved,omitzero"`
	DueIn    float64   `json:"dueInSeconds,omitempty"`
	Reason   string    `json:"reason,omitempty"`
	Advice   []string  `json:"do,omitempty"`
	Error    string    `json:"error,omitempty"`
	Says     []string  `json:"says,omitempty"`
	Owed     int       `json:"owed,omitempty"`
	Settled  int       `json:"settled,omitempty"`
	Effects  []string  `json:"effects,omitempty"`
	Waiting  int       `json:"inputsWaiting,omitempty"`
	Request  string    `json:"request,omitempty"`
	LeaseFor float64   `json:"leaseSeconds,omitempty"`
}

func runs(ctx context.Context, p *program, _ []string, x *extras) error {
	if status := snapshot.Status(x.status); x.status != "" && (!status.Known() || status == snapshot.Ended) {
		return usage("-status %q is none of running, waiting, suspended, parked", x.status)
	}
	if x.after != "" && p.bot == "" {
		return usage("-after needs -bot")
	}
	t := p.table("BOT", "SESSION", "STATE", "TURN", "ATTEMPT", "AGE", "OWNER")
	q := ops.RunQuery{Bot: p.bot, Status: snapshot.Status(x.status), After: x.after, Limit: p.limit}
	for r, err := range p.room.Runs(ctx, q) {
		if err != nil {
			return errors.Join(err, t.end(p, ""))
		}
		v := runJSON{
			Bot: r.Orchestrator, Session: r.Session, Run: r.ID, State: r.State(), Turn: r.Turn, Attempt: r.Attempt,
			Owner: r.Owner, Age: r.Age.Seconds(), Saved: r.SavedAt, DueIn: r.Pause.Seconds(),
		}
		for _, why := range []error{r.Damaged, r.Away} {
			if why != nil {
				v.Reason = why.Error()
			}
		}
		state := v.State
		if r.Pause > 0 && r.Damaged == nil {
			state += " " + age(r.Pause)
		}
		if err := t.row(v, r.Orchestrator, r.Session, state, r.Turn, r.Attempt, age(r.Age), or(r.Owner)); err != nil {
			return err
		}
	}
	return t.end(p, "no run is in flight")
}

func sessions(ctx context.Context, p *program, _ []string, x *extras) error {
	if x.after != "" && p.bot == "" {
		return usage("-after needs -bot")
	}
	names := []string{p.bot}
	if p.bot == "" {
		var err error
		if names, err = p.room.Bots(ctx); err != nil {
			return err
		}
	}
	t := p.table("BOT", "SESSION", "TURN", "OWED", "RUN", "OWNER")
	for _, name := range names {
		bot, err := p.room.Bot(name)
		if err != nil {
			return err
		}
		q := checkpoint.SessionQuery{
			Prefix: x.session, Label: x.label, Owing: x.owing, After: x.after, Limit: p.limit,
		}
		for session, err := range bot.Sessions(ctx, q) {
			if err == nil || isDamaged(err) {
				err = sessionRow(ctx, t, bot, session)
			}
			if err != nil {
				return err
			}
		}
	}
	return t.end(p, "no session")
}

func sessionRow(
	ctx context.Context, t *table, bot *orchestrator.Orchestrator[json.RawMessage], session string,
) error {
	st, err := bot.Inspect(ctx, session)
	v := runJSON{
		Bot: bot.Name(), Session: session, Settled: st.Turn + 1, Owed: st.Owed, Owner: st.Owner, State: "idle",
		LeaseFor: st.LeaseLeft.Seconds(),
	}
	switch {
	case isDamaged(err):
		v.State, v.Reason = "damaged", err.Error()
	case err != nil && !isDrift(err):
		return err
	case st.Run != nil:
		v.State, v.Run = (ops.Run{Run: snapshot.Run{Status: st.Run.Status}, Owner: st.Owner}).State(), st.Run.ID
	}
	return t.row(v, v.Bot, session, st.Turn, st.Owed, v.State, or(st.Owner))
}

func isDamaged(err error) bool {
	_, ok := errors.AsType[*store.DamagedError](err)
	return ok
}

func isDrift(err error) bool {
	_, ok := errors.AsType[*orchestrator.DriftError](err)
	return ok
}

func why(ctx context.Context, p *program, args []string, _ *extras) error {
	k, err := p.session(ctx, args[0])
	if err != nil {
		return p.orWorkflow(ctx, args[0], err)
	}
	w, err := p.room.Why(ctx, k)
	if err != nil {
		return err
	}
	return p.value(whyJSON(w), func() { p.printWhy(w) })
}

func whyJSON(w ops.Why) runJSON {
	v := runJSON{
		Bot: w.Orchestrator, Session: w.Key.Session, State: w.State, Owner: w.Owner, Owed: w.Owed, Settled: w.Turn + 1,
		Error: w.Error, Says: w.Says, Waiting: w.Inputs, LeaseFor: w.LeaseLeft.Seconds(),
	}
	if r := w.Run; r != nil {
		v.Run, v.Turn, v.Attempt, v.Request, v.Saved = r.ID, r.Turn, r.Attempt, r.RequestID, r.Saved
		v.DueIn = r.Pause.Seconds()
	}
	for _, e := range w.Effects {
		v.Effects = append(v.Effects, e.ID)
	}
	for _, a := range w.Do {
		v.Advice = append(v.Advice, string(a.Act))
	}
	return v
}

func (p *program) printWhy(w ops.Why) {
	fmt.Fprintf(p.out, "%s of bot %s: %s\n", plain(w.Key.Session), plain(w.Orchestrator), w.State)
	for _, s := range w.Says {
		fmt.Fprintln(p.out, plain(s))
	}
	if r := w.Run; r != nil {
		fmt.Fprintf(p.out, "  run %s, turn %d, attempt %d, begun %s, saved %s\n", plain(r.ID), r.Turn, r.Attempt,
			at(r.Started), at(r.Saved))
	}
	if w.Error != "" {
		fmt.Fprintln(p.out, "  last error:", plain(w.Error))
	}
	for _, e := range w.Effects {
		fmt.Fprintf(p.out, "  effect %s: %s of class %s is %s, tried %d times, the last time %s ago\n", plain(e.ID),
			plain(e.Name), e.Class, e.State, e.Attempts, age(e.Age))
		if e.Error != "" {
			fmt.Fprintln(p.out, "    last error:", plain(e.Error))
		}
	}
	for _, a := range w.Do {
		id := w.Key.Session
		if a.Act == ops.AnswerEffect && len(w.Effects) > 0 {
			id = w.Effects[0].ID + " -landed|-not-landed|-skip"
		}
		fmt.Fprintf(p.out, "holdfast %s %s\n  %s\n", a.Act, plain(id), a.Does)
	}
}

// A turnJSON is a settled turn.
type turnJSON struct {
	Bot     string          `json:"bot"`
	Session string          `json:"session"`
	Turn    int             `json:"turn"`
	Run     string          `json:"run"`
	Request string          `json:"request,omitempty"`
	Kind    string          `json:"kind,omitempty"`
	By      string          `json:"by,omitempty"`
	Steps   []string        `json:"steps"`
	Took    float64         `json:"seconds"`
	Input   int             `json:"inputTokens,omitempty"`
	Output  int             `json:"outputTokens,omitempty"`
	Cost    float64         `json:"cost,omitempty"`
	Saved   time.Time       `json:"saved"`
	Failed  bool            `json:"failed,omitempty"`
	Text    string          `json:"text,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	State   json.RawMessage `json:"state,omitempty"`
	Damaged string          `json:"damaged,omitempty"`
}

func show(ctx context.Context, p *program, args []string, x *extras) error {
	k, err := p.session(ctx, args[0])
	if err != nil {
		return p.orWorkflow(ctx, args[0], err)
	}
	if !p.json {
		if err := why(ctx, p, args, x); err != nil {
			return err
		}
		fmt.Fprintln(p.out)
	}
	bot, err := p.room.Bot(k.Orchestrator)
	if err != nil {
		return err
	}
	t := p.table("TURN", "SAVED", "STEPS", "TOOK", "TOKENS", "REQUEST", "RUN", "SAID")
	shown := 0
	for r, err := range bot.Turns(ctx, k.Session) {
		if shown++; shown > p.limit {
			break
		}
		if err = p.turnRow(t, k, r, err); err != nil {
			return err
		}
	}
	return t.end(p, "no turn is settled")
}

func (p *program) turnRow(
	t *table, k store.Key, r *orchestrator.Result[json.RawMessage], err error,
) error {
	if isDamaged(err) {
		e, _ := errors.AsType[*orchestrator.Error](err)
		v := turnJSON{Bot: k.Orchestrator, Session: k.Session, Turn: e.Turn, Damaged: err.Error()}
		return t.row(v, e.Turn, "-", "damaged: "+err.Error())
	}
	if err != nil {
		return err
	}
	v := turnJSON{
		Bot: k.Orchestrator, Session: k.Session, Turn: r.Turn, Run: r.RunID, Request: r.Input.RequestID,
		Kind: r.Input.Kind, Input: r.Usage.Input, Output: r.Usage.Output, Cost: r.Usage.Cost,
		Saved: r.SavedAt, Failed: r.Failed, By: r.Input.By,
	}
	for _, s := range r.Steps {
		v.Steps, v.Took = append(v.Steps, strings.Join(s.Next.Intents, "+")), v.Took+s.Took.Seconds()
	}
	said := "(-reveal shows it)"
	if p.reveal {
		v.Text, v.Data, v.State = r.Input.Text, r.Input.Data, r.State
		said = r.Input.Text + string(r.Input.Data) + " → " + string(r.State)
	}
	took := time.Duration(v.Took * float64(time.Second)).Round(time.Millisecond)
	return t.row(v, r.Turn, at(r.SavedAt), or(strings.Join(v.Steps, " ")), took,
		fmt.Sprintf("%d+%d", v.Input, v.Output), or(v.Request), v.Run, said)
}

// An effectJSON is an effect.
type effectJSON struct {
	ID       string          `json:"id"`
	Bot      string          `json:"bot"`
	Session  string          `json:"session"`
	Run      string          `json:"run"`
	Name     string          `json:"name"`
	Key      string          `json:"key,omitempty"`
	Class    string          `json:"class"`
	State    ledger.State    `json:"state"`
	Attempts int             `json:"attempts"`
	Age      float64         `json:"ageSeconds"`
	Error    string          `json:"error,omitempty"`
	By       string          `json:"answeredBy,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Damaged  string          `json:"damaged,omitempty"`
}

func effects(ctx context.Context, p *program, _ []string, x *extras) error {
	if x.all && x.session == "" {
		return usage("-all needs -session")
	}
	t := p.table("EFFECT", "BOT", "SESSION", "NAME", "CLASS", "STATE", "ATTEMPTS", "AGE", "ERROR")
	q := ledger.Query{Orchestrator: p.bot, Session: x.session, Open: !x.all}
	for e, err := range p.room.Effects(ctx, q) {
		if err != nil && !isDamaged(err) {
			return errors.Join(err, t.end(p, ""))
		}
		v := effectJSON{
			ID: e.ID, Bot: e.Orchestrator, Session: e.Session, Run: e.RunID, Name: e.Name, Key: e.Key,
			Class: e.Class.String(), State: e.State, Attempts: e.Attempts, Age: e.Age.Seconds(), Error: e.Error,
			By: e.AnsweredBy,
		}
		state := string(e.State)
		if err != nil {
			v.Damaged, state = err.Error(), "damaged"
		}
		if p.reveal {
			v.Args, v.Result = e.Args, e.Result
		}
		if err := t.row(v, e.ID, e.Orchestrator, e.Session, e.Name, v.Class, state, e.Attempts, age(e.Age),
			or(e.Error)); err != nil {
			return err
		}
		if t.rows >= p.limit {
			break
		}
	}
	return t.end(p, "no effect is open")
}

// A questionJSON is what a session asks.
type questionJSON struct {
	Bot      string          `json:"bot"`
	Session  string          `json:"session"`
	Question string          `json:"question"`
	Sum      string          `json:"sum"`
	Shown    json.RawMessage `json:"shown,omitempty"`
	Expires  time.Time       `json:"expires,omitzero"`
	Client   bool            `json:"client,omitempty"`
	Answered bool            `json:"answered,omitempty"`
	By       string          `json:"by,omitempty"`
}

func questions(ctx context.Context, p *program, _ []string, _ *extras) error {
	t := p.table("BOT", "SESSION", "QUESTION", "EXPIRES", "ANSWERED", "ASKS")
	for q, err := range p.room.Questions(ctx, p.bot, "") {
		if err != nil {
			return errors.Join(err, t.end(p, ""))
		}
		v := questionJSON{
			Bot: q.Orchestrator, Session: q.Session, Question: q.ID, Sum: q.Sum, Expires: q.Expires, Client: q.Client,
			Answered: q.Answered, By: q.By,
		}
		asks := "(-reveal shows it)"
		if p.reveal {
			v.Shown, asks = q.JSON, string(q.JSON)
		}
		answered := "no"
		if q.Answered {
			answered = "by " + or(q.By)
		}
		if err := t.row(v, q.Orchestrator, q.Session, q.ID, at(q.Expires), answered, asks); err != nil {
			return err
		}
		if t.rows >= p.limit {
			break
		}
	}
	return t.end(p, "nobody is asked; questions are those of agents")
}

// A processJSON is a process.
type processJSON struct {
	Process  string   `json:"process"`
	Alive    bool     `json:"alive"`
	Beats    int64    `json:"beats"`
	Sessions []string `json:"sessions"`
}

func processes(ctx context.Context, p *program, _ []string, _ *extras) error {
	all, err := p.room.Processes(ctx, 3*time.Second)
	if err != nil {
		return err
	}
	t := p.table("PROCESS", "ALIVE", "BEATS", "SESSIONS WITH RUNS")
	for _, one := range all {
		v := processJSON{Process: one.Name, Alive: one.Alive, Beats: one.Beats, Sessions: []string{}}
		for _, k := range one.Sessions {
			v.Sessions = append(v.Sessions, k.Orchestrator+"/"+k.Session)
		}
		shown := v.Sessions[:min(len(v.Sessions), 5)]
		some := fmt.Sprint(len(v.Sessions), " ", strings.Join(shown, " "))
		alive := "no"
		if one.Alive {
			alive = "yes"
		}
		if err := t.row(v, one.Name, alive, one.Beats, some); err != nil {
			return err
		}
	}
	return t.end(p, "no process owns anything")
}
