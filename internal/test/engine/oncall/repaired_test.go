package oncall_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/postgres"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// State is that of docs/effects.md, with a letter that a model writes.
type State struct{ Order, Receipt, Letter, Asks string }

type Turn = orchestrator.Turn[State]

// A shop is a process of the service.
type shop struct {
	model *model
	asks  bool            // before it writes a letter
	hold  chan<- struct{} // not nil: the turn has come to the letter, and does not go on
	retry retry.Policy
	tries int // before a run is parked; 0 means the default
}

// refund pays once for an order, whatever the session and the turn.
func (s *shop) refund(ctx context.Context, t *Turn) (err error) {
	t.State.Order = t.Input.Text
	pay := func(ctx context.Context, key string) (string, error) {
		receipt, found, err := bank(ctx, http.MethodPost, key)
		if err == nil && !found {
			err = ledger.NotDone(errors.New("the bank knows no such order")) // certainly not paid
		}
		return receipt, err // of any other error nobody knows whether it was paid
	}
	find := func(ctx context.Context, key string) (string, bool, error) { return bank(ctx, http.MethodGet, key) }
	t.State.Receipt, err = orchestrator.Once(ctx, t, "refund", pay, &orchestrator.OnceOptions[string]{
		Key: t.State.Order, Class: ledger.Verifiable, Verify: find, Settles: time.Minute,
	})
	return err
}

// bank asks the bank about the refund with a key, or for it.
func bank(ctx context.Context, method, key string) (receipt string, found bool, err error) {
	to := os.Getenv("BANK") + "/refunds/" + url.PathEscape(key)
	r, err := http.NewRequestWithContext(ctx, method, to, nil)
	if err != nil {
		return "", false, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", false, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return "", false, err
	case answer.StatusCode == http.StatusNotFound:
		return "", false, nil
	case answer.StatusCode != http.StatusOK:
		return "", false, fmt.Errorf("the bank: %s", answer.Status)
	}
	return string(text), true, nil
}

// letter asks a model for a letter about the refund. What is no letter is an error.
func (s *shop) letter(ctx context.Context, t *Turn) error {
	switch {
	case s.asks && t.Input.Origin != orchestrator.FromAnswer:
		t.State.Asks = t.State.Order
		return nil
	case s.hold != nil:
		s.hold <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	to := "http://" + s.model.addr + "/letters?receipt=" + url.QueryEscape(t.State.Receipt)
	r, err := http.NewRequestWithContext(oncehttp.With(ctx, t, "model"), http.MethodPost, to, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := s.model.client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var said struct{ Letter string }
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil || said.Letter == "" {
		return fmt.Errorf("the model has written no letter: %w", err)
	}
	t.State.Letter, t.State.Asks = said.Letter, ""
	return nil
}

// The functions that pay are those of docs/effects.md.
func TestShopIsShown(t *testing.T) {
	own, err := os.ReadFile("repaired_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := os.ReadFile(docs + "effects.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{"// refund pays once ", "// bank asks the bank "} {
		_, rest, _ := strings.Cut(string(own), "\n"+head)
		body, _, _ := strings.Cut(rest, "\n}\n")
		if body == "" || !strings.Contains(string(shown), "\n"+head+body+"\n}\n") {
			t.Errorf("docs/effects.md has not %q", head+body)
		}
	}
}

// A model listens on loopback. It answers nonsense once, and is away until it is repaired: nothing listens.
type model struct {
	t        *testing.T
	addr     string
	client   *http.Client
	refused  chan struct{} // has an entry if a connection was refused while the model was away
	patience atomic.Int64  // so many more are refused, and then it is repaired; 0: it waits for repair

	mu              sync.Mutex   // protects following fields
	away            func() error // ends the server, after its last answer
	nonsense, sense int          // how often it has said so
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{t: t, refused: make(chan struct{}, 1)}
	m.client = &http.Client{Transport: oncehttp.New(nil).Transport(&http.Transport{
		DisableKeepAlives: true, DialContext: m.dial,
	})}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.addr = listener.Addr().String()
	m.serve(listener)
	t.Cleanup(func() { _ = m.away() })
	return m
}

func (m *model) serve(l net.Listener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	server := &http.Server{Handler: m, ReadHeaderTimeout: time.Minute}
	m.away = func() error { return server.Shutdown(context.WithoutCancel(m.t.Context())) }
	go func() { _ = server.Serve(l) }()
}

// repair makes the model listen again. Another connection of this machine may have its port for a moment.
func (m *model) repair() {
	var last error
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(poll) {
		listener, err := new(net.ListenConfig).Listen(m.t.Context(), "tcp", m.addr)
		if err == nil {
			m.serve(listener)
			return
		}
		last = err
	}
	m.t.Error(last)
}

func (m *model) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		return conn, nil
	}
	if m.patience.Load() > 0 && m.patience.Add(-1) == 0 {
		m.repair()
	}
	select {
	case m.refused <- struct{}{}:
	default:
	}
	return nil, err
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.nonsense++
	first := m.nonsense == 1
	if !first {
		m.nonsense--
		m.sense++
	}
	away := m.away
	m.mu.Unlock()
	if first {
		go func() { _ = away() }() // it waits for this answer, and takes no connection any more
		m.awaitAway()
		_, _ = io.WriteString(w, "lorem ipsum")
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"letter": "You have " + r.FormValue("receipt")})
}

// awaitAway returns when connections are refused.
func (m *model) awaitAway() {
	for {
		conn, err := new(net.Dialer).DialContext(m.t.Context(), "tcp", m.addr)
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

func (m *model) said() (nonsense, sense int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.nonsense, m.sense
}

// bankers is a bank. It counts its payments.
type bankers struct {
	mu   sync.Mutex // protects following field
	paid map[string]int
}

func (b *bankers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/refunds/")
	if r.Method == http.MethodPost {
		b.paid[key]++
	}
	if b.paid[key] == 0 {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, "receipt of "+key)
}

func (b *bankers) times(key string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.paid[key]
}

// The stores of a process.
type stores struct {
	checkpoints checkpoint.Store
	snapshots   snapshot.Store
	ledger      ledger.Ledger
	answers     inbox.Store
}

// places open the stores of a process, and so those of the next one.
var places = map[string]func(*testing.T) func() stores{
	"memory": func(*testing.T) func() stores {
		s := stores{new(checkpoint.Memory), new(snapshot.Memory), new(ledger.Memory), new(inbox.Memory)}
		return func() stores { return s }
	},
	"sqlite": func(t *testing.T) func() stores {
		t.Helper()
		db, err := sqlite.Open(filepath.Join(t.TempDir(), "shop.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		if err := sqlite.New(db, nil).Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		return func() stores {
			lite := sqlite.New(db, nil)
			return stores{lite.Checkpoints(), lite.Snapshots(), lite.Ledger(), lite.Inbox()}
		}
	},
	"postgres": func(t *testing.T) func() stores {
		t.Helper()
		pool := testenv.Postgres(t)
		return func() stores {
			pg := postgres.New(pool, nil)
			return stores{pg.Checkpoints(), pg.Snapshots(), pg.Ledger(), pg.Inbox()}
		}
	},
}

// A story is what happens in one session, in which the model fails.
type story struct {
	*testing.T
	open    func() stores
	model   *model
	bank    *bankers
	session string
	away    time.Duration // how long the model is away at least, once it was asked
}

// order is the name of an order that no other story has.
func (s *story) order(n int) string { return fmt.Sprint(s.Name(), " ", n) }

// A process is a process of the service.
type process struct {
	*story
	stores
	bot  *orchestrator.Orchestrator[State]
	http *httptest.Server
	o    turnhttp.Options[State]
	runs chan bootdrain.Run // that the watch has ended
}

func (s *story) start(shop shop) *process {
	s.Helper()
	p := &process{story: s, stores: s.open(), runs: make(chan bootdrain.Run, 100)}
	shop.model = s.model
	var err error
	p.bot, err = orchestrator.New(orchestrator.Definition[State]{
		Name: "refunds", Iterate: true, First: "refund",
		Intents: orchestrator.Intents[State]{
			"refund": {Run: shop.refund, Next: orchestrator.To("letter")},
			"letter": {Run: shop.letter, Next: orchestrator.End, Retry: shop.retry},
		},
	}, p.checkpoints, &orchestrator.Options{
		Snapshots: p.snapshots, Ledger: p.ledger, Logger: slog.New(slog.DiscardHandler),
		Limits: orchestrator.Limits{Attempts: shop.tries},
	})
	if err != nil {
		s.Fatal(err)
	}
	p.o = turnhttp.Options[State]{
		Authorize: turnhttp.Allow("desk", turnhttp.ActionTurn, turnhttp.ActionRead, turnhttp.ActionAnswer,
			turnhttp.ActionResume, turnhttp.ActionUnpark),
		Reply: func(res *orchestrator.Result[State]) any { return res.State.Letter },
		Questions: func(s *State) []approval.Question {
			if s.Asks == "" {
				return nil
			}
			return []approval.Question{{ID: "q1", Shown: s.Asks}}
		},
		Answer: func(q approval.Question, _ approval.Answer) (orchestrator.Input, error) {
			return orchestrator.Input{Text: q.Shown.(string)}, nil
		},
		Inbox: p.answers, Ledger: p.ledger,
	}
	p.http = httptest.NewServer(turnhttp.Handler(p.bot, p.o))
	s.Cleanup(p.http.Close)
	s.Cleanup(func() { _ = p.bot.Shutdown(context.WithoutCancel(s.Context())) })
	return p
}

// background runs f until stop.
func (s *story) background(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	end := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			s.Error(err)
		}
	})
	s.Cleanup(end)
	return end
}

// watch finishes what no caller waits for.
func (p *process) watch() (stop func()) {
	return p.background(func(ctx context.Context) error {
		return bootdrain.Watch(ctx, p.bot, &bootdrain.Options{
			Logger: slog.New(slog.DiscardHandler), OnRun: func(r bootdrain.Run) { p.runs <- r },
		})
	})
}

// answering runs the answers whose turns have failed.
func (p *process) answering() (stop func()) {
	return p.background(func(ctx context.Context) error { return p.o.Desk(p.bot).Run(ctx) })
}

// until waits for an outcome of the watch.
func (p *process) until(outcome string) {
	p.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case r := <-p.runs:
			if r.Outcome == outcome {
				return
			}
		case <-late:
			p.Fatalf("no run is %s", outcome)
		}
	}
}

// untilAway waits until the model was asked while it was away, and until it has been away for long.
func (s *story) untilAway() {
	s.Helper()
	select {
	case <-s.model.refused:
	case <-time.After(time.Minute):
		s.Fatal("the model was not asked while it was away")
	}
	<-time.After(s.away)
}

// told has the members of documents that the stories read.
type told struct {
	Turn      int
	Reply     any
	Unparked  bool
	Questions []struct{ ID, Sum string }
}

// do sends a request. It wants a status, or one of 400 and more if status is 0.
func (p *process) do(status int, method, path, key, body string) (doc told) {
	p.Helper()
	to := p.http.URL + "/sessions/" + p.session + path
	r, err := http.NewRequestWithContext(p.Context(), method, to, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err == nil {
		err = json.Unmarshal(text, &doc)
	}
	if err != nil || status != w.StatusCode && (status > 0 || w.StatusCode < 400) {
		p.Fatalf("%s %s is %s: %s, want %d; %v", method, path, w.Status, text, status, err)
	}
	return doc
}

func (p *process) say(status int, key string) told {
	p.Helper()
	return p.do(status, http.MethodPost, "/turns", key, fmt.Sprintf(`{"message":%q}`, p.order(1)))
}

// leave leaves a run in flight that has paid, and has not asked: its process has ended.
func (s *story) leave() {
	s.Helper()
	there := make(chan struct{})
	p := s.start(shop{hold: there})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in := orchestrator.Input{RequestID: "k", Text: s.order(1)}
		if _, err := p.bot.Execute(s.Context(), s.session, in, nil); !errors.Is(err, orchestrator.ErrIndeterminate) {
			s.Errorf("the process has left no run: %v", err)
		}
	}()
	<-there
	now, cancel := context.WithCancel(s.Context())
	cancel()
	if err := p.bot.Shutdown(now); err != nil {
		s.Error(err)
	}
	<-ended
}

// ways are how a turn goes on when its model was repaired. Each returns the process that serves then.
var ways = map[string]func(*story) *process{
	"Intent.Retry": func(s *story) *process {
		const tries = 4
		s.model.patience.Store(tries - 1)
		p := s.start(shop{retry: retry.Fixed(tries+1, max(s.away/tries, time.Millisecond))})
		p.say(http.StatusOK, "k")
		return p
	},
	"the same request id": func(s *story) *process {
		p := s.start(shop{})
		p.say(0, "k")
		p.say(0, "k")
		s.untilAway()
		s.model.repair()
		p.say(http.StatusOK, "k")
		return p
	},
	"Answers": func(s *story) *process {
		p := s.start(shop{asks: true})
		p.watch()
		p.say(http.StatusOK, "k")
		all := p.do(http.StatusOK, http.MethodGet, "/questions", "", "").Questions
		if len(all) != 1 {
			s.Fatalf("it asks %+v", all)
		}
		p.do(0, http.MethodPost, "/questions/q1", "", fmt.Sprintf(`{"answer":true,"sum":%q}`, all[0].Sum))
		p.answering()
		s.untilAway()
		s.model.repair()
		for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(poll) {
			if p.do(http.StatusOK, http.MethodGet, "", "", "").Turn == 1 {
				break
			}
		}
		return p
	},
	"resume": func(s *story) *process {
		s.leave()
		p := s.start(shop{})
		stop := p.watch()
		s.untilAway()
		stop()
		s.model.repair()
		p.do(http.StatusOK, http.MethodPost, "/resume", "", "")
		return p
	},
	"parked, by HTTP": func(s *story) *process {
		p := s.parked()
		if !p.do(http.StatusOK, http.MethodPost, "/unpark", "", "").Unparked {
			s.Error("no run was parked")
		}
		p.until("settled")
		return p
	},
	"parked, in Go": func(s *story) *process {
		p := s.parked()
		own := s.open()
		unparked, err := orchestrator.Unpark(s.Context(), "refunds", s.session, own.checkpoints,
			&orchestrator.Options{
				Snapshots: own.snapshots, Ledger: own.ledger, Logger: slog.New(slog.DiscardHandler),
			})
		if !unparked || err != nil {
			s.Errorf("unparked: %t, %v", unparked, err)
		}
		p.until("settled")
		return p
	},
}

// parked leaves a run that is parked because the model has failed. Then the model is repaired, and that alone changes
// nothing: the session takes no input.
func (s *story) parked() *process {
	s.Helper()
	p := s.start(shop{tries: 1})
	p.say(0, "k")
	s.leave()
	p.watch()
	p.until("parked")
	s.untilAway()
	s.model.repair()
	p.say(http.StatusConflict, "another")
	return p
}

// judge checks what has become of the session. Then it takes the next input.
func (p *process) judge() {
	p.Helper()
	var sessions []string
	for session, err := range p.bot.Sessions(p.Context(), checkpoint.SessionQuery{}) {
		if sessions = append(sessions, session); err != nil {
			p.Error(err)
		}
	}
	if !slices.Equal(sessions, []string{p.session}) {
		p.Errorf("the sessions are %q", sessions)
	}
	for r, err := range p.bot.Runs(p.Context()) {
		p.Errorf("%s is in flight: %v", r.ID, err)
	}
	res, err := p.bot.Turn(p.Context(), p.session, checkpoint.Newest)
	if err != nil {
		p.Fatal(err)
	}
	if res.State.Order != p.order(1) || res.State.Letter != "You have "+res.State.Receipt {
		p.Errorf("the turn has settled with %+v", res.State)
	}
	if nonsense, sense := p.model.said(); nonsense != 1 || sense != 1 {
		p.Errorf("the model was asked %d times before it was repaired, and %d times since", nonsense, sense)
	}
	p.wantPaid(1)
	next := p.do(http.StatusOK, http.MethodPost, "/turns", "next", fmt.Sprintf(`{"message":%q}`, p.order(2)))
	if next.Turn != res.Turn+1 {
		p.Errorf("the next turn is %+v", next)
	}
	p.wantPaid(2)
}

// wantPaid checks that so many orders were paid, each once.
func (p *process) wantPaid(orders int) {
	p.Helper()
	for e, err := range p.ledger.Effects(p.Context(), ledger.Query{Session: p.session}) {
		if err != nil {
			p.Fatal(err)
		}
		if e.Name != "refund" {
			continue
		}
		orders--
		if n := p.bank.times(e.ID); n != 1 {
			p.Errorf("%s is %s, and was paid %d times", e.ID, e.State, n)
		}
	}
	if orders != 0 {
		p.Errorf("%d orders are not in the ledger", orders)
	}
}

// The service of docs/effects.md has a model that answers nonsense once, is away, and is repaired. In each way to try
// again the session goes on: the model is asked once more, and nothing is paid again. A run that was parked meanwhile
// goes on after one request, and after one call. With HOLDFAST_SOAK=1 the model is away for a minute, otherwise
// until it was asked.
func TestModelIsRepaired(t *testing.T) {
	b := &bankers{paid: make(map[string]int)}
	there := httptest.NewServer(b)
	t.Cleanup(there.Close)
	t.Setenv("BANK", there.URL)
	var away time.Duration
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		away = time.Minute
	}
	var all sync.WaitGroup // they wait for pauses: more of them at once than there are processors
	for place, open := range places {
		for way, goOn := range ways {
			all.Go(func() {
				t.Run(place+"/"+way, func(t *testing.T) {
					s := &story{T: t, open: open(t), model: newModel(t), bank: b, session: "s", away: away}
					goOn(s).judge()
				})
			})
		}
	}
	all.Wait()
}
