package agui_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/bootdrain"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/retry"
	"github.com/holdfast-go/holdfast/sqlite"
	"github.com/holdfast-go/holdfast/turnhttp"
	"github.com/holdfast-go/holdfast/turnhttp/agui"
)

// The environment of a process that TestMain serves in, in place of the tests.
const (
	shopAddr = "AGUI_TEST_ADDR"
	shopFile = "AGUI_TEST_FILE"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(shopAddr); addr != "" {
		fmt.Fprintln(os.Stderr, serveShop(addr, os.Getenv(shopFile)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

type order struct {
	Number string `json:"number"`
}

// model does what the user says: "say", "slow" with so many words, "fail", and the name of a tool with a number.
func model(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	say := func(blocks ...message.Block) (agent.Reply, error) {
		return agent.Reply{
			Message: message.Message{Blocks: blocks}, Usage: orchestrator.Usage{Input: 7, Output: 5, Model: "scripted"},
		}, nil
	}
	newest := r.Said[len(r.Said)-1]
	if newest.Role != message.RoleUser {
		return say(message.Text("It says: " + newest.Blocks[len(newest.Blocks)-1].Text + " "))
	}
	verb, rest, _ := strings.Cut(newest.Blocks[0].Text, " ")
	switch verb {
	case "fail":
		return agent.Reply{}, retry.Permanent(errors.New("no model today"))
	case "say":
		for word := range strings.FieldsSeq(rest) {
			token(word + " ")
		}
		return say(message.Text(strings.Join(strings.Fields(rest), " ") + " "))
	case "think":
		return say(message.Block{Kind: message.KindReasoning, Text: "I think: " + rest}, message.Text(rest+" "))
	case "slow":
		n, _ := strconv.Atoi(rest)
		var all strings.Builder
		for i := range n {
			word := strconv.Itoa(i) + " "
			all.WriteString(word)
			token(word)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
				return agent.Reply{}, ctx.Err()
			}
		}
		return say(message.Text(all.String()))
	}
	return say(message.ToolCall("", verb, []byte(`{"number":"`+rest+`"}`)))
}

// newShop returns the routes of a shop on a database, as a process has them. Below /desk a client may do everything,
// below /page talk and run client tools, and below /customer only talk.
func newShop(db *sql.DB, stores *sqlite.DB) (*agent.Agent[struct{}], http.Handler, error) {
	pay := func(ctx context.Context, key string, o order) (string, error) {
		_, err := db.ExecContext(ctx, "INSERT INTO payments VALUES (?, ?)", key, o.Number)
		if strings.HasPrefix(o.Number, "slow") {
			time.Sleep(2 * time.Second)
		}
		return "paid " + o.Number, err
	}
	verify := func(ctx context.Context, key string) (landed string, ok bool, err error) {
		err = db.QueryRowContext(ctx, "SELECT 'paid ' || number FROM payments WHERE key = ?", key).Scan(&landed)
		if errors.Is(err, sql.ErrNoRows) {
			return "", false, nil
		}
		return landed, err == nil, err
	}
	a, err := agent.New(agent.Definition[struct{}]{
		Name: "shop", Model: agent.ModelFunc(model), ShowReasoning: true,
		Tools: []agent.Tool{
			agent.Read("find", "", func(_ context.Context, o order) (string, error) {
				return o.Number + " is lost", nil
			}),
			agent.ClientTool[order]("where", ""),
			agent.Effect[order, string]{
				Name: "refund", Class: ledger.Verifiable, Verify: verify, Run: pay,
				Approve: func(order) bool { return true },
			}.Tool(),
			agent.Effect[order, string]{Name: "pay", Class: ledger.Verifiable, Verify: verify, Run: pay}.Tool(),
		},
	}, agent.On(stores), nil)
	if err != nil {
		return nil, nil, err
	}
	type state = agent.State[struct{}]
	mux := http.NewServeMux()
	for name, actions := range map[string][]turnhttp.Action{
		"desk":     {"turn", "follow", "read", "answer", "stop", "abandon"},
		"page":     {"turn", "follow", "client"},
		"customer": {"turn", "follow"},
	} {
		o := a.Options(turnhttp.Options[state]{Authorize: turnhttp.Allow(turnhttp.Actor(name), actions...)})
		h := agui.Handler(a.Bot(), o, &agui.Options[state]{
			Cancelled: name == "desk",
			State: func(res *orchestrator.Result[state]) any {
				return map[string]any{"turn": res.Turn, "text": res.State.Output, "much": strings.Repeat("x", 1000)}
			},
		})
		mux.Handle("/"+name, h)
		mux.Handle("/"+name+"/connect", h)
		mux.Handle("/"+name+"/sessions/", http.StripPrefix("/"+name, turnhttp.Handler(a.Bot(), o)))
	}
	mux.HandleFunc("GET /paid/{number}", func(w http.ResponseWriter, r *http.Request) {
		var n int
		const query = "SELECT count(*) FROM payments WHERE number = ?"
		err := db.QueryRowContext(r.Context(), query, r.PathValue("number")).Scan(&n)
		fmt.Fprintf(w, `{"paid": %d, "error": %q}`, n, fmt.Sprint(err))
	})
	return a, mux, nil
}

// serveShop serves the shop as a process, until it is killed.
func serveShop(addr, file string) error {
	db, err := sqlite.Open(file)
	if err != nil {
		return err
	}
	stores := sqlite.New(db, nil)
	if err := stores.Up(context.Background()); err != nil {
		return err
	}
	if _, err := db.Exec("CREATE TABLE IF NOT EXISTS payments (key TEXT, number TEXT)"); err != nil {
		return err
	}
	a, h, err := newShop(db, stores)
	if err != nil {
		return err
	}
	go func() { fmt.Fprintln(os.Stderr, bootdrain.Watch(context.Background(), a.Bot(), nil)) }()
	return http.ListenAndServe(addr, h)
}

// A process is the process of a shop, which can be killed. Another one takes its place, on the same address.
type process struct {
	t    *testing.T
	addr string
	file string
	mu   sync.Mutex
	cmd  *exec.Cmd
}

func startShop(t *testing.T) *process {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, addr: l.Addr().String(), file: filepath.Join(t.TempDir(), "shop.db")}
	l.Close()
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.cmd = exec.Command(os.Args[0]) //nolint:gosec // this test
	p.cmd.Env = append(os.Environ(), shopAddr+"="+p.addr, shopFile+"="+p.file)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		p.t.Error(err)
		return
	}
	for late := time.Now().Add(20 * time.Second); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		if resp, err := http.Get("http://" + p.addr + "/paid/0"); err == nil {
			resp.Body.Close()
			return
		}
	}
	p.t.Error("the shop does not serve")
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// control lets the scripts of Node kill the process: POST /kill starts another one.
func (p *process) control() string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.kill()
		p.start()
	}))
	p.t.Cleanup(server.Close)
	return server.URL
}
