package mcp_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/mcp"
)

const (
	unknown = "it may have been executed"
	never   = "not executed"
)

// judged fails the test if the error does not say what has become of the call.
func judged(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case err == nil || !strings.Contains(err.Error(), want):
		t.Errorf("%s: %v, want %q", name, err, want)
	case ledger.IsNotDone(err) != (want != unknown):
		t.Errorf("%s: %v, and it is not done: %t", name, err, ledger.IsNotDone(err))
	case len(err.Error()) > 4<<10:
		t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
	}
}

// timeoutOf returns how long a call waits that ends as wanted. One that is refused is answered, also by a slow machine.
func timeoutOf(want string) time.Duration {
	if want == unknown {
		return 10 * time.Second
	}
	return 0
}

// Whatever a server says in place of a result, the outcome is unknown, unless it says that it has refused the call. The
// codes of errors that the library itself uses prove nothing.
func TestLies(t *testing.T) {
	for lie, want := range map[string]string{
		"json": unknown, "noid": unknown, "ids": unknown, "form": unknown, "kind": unknown, "huge": unknown,
		"ends": unknown, "silent": unknown, "deaf": unknown, "code -32603": unknown, "code -32003": unknown,
		"code -32004": unknown, "code -32005": unknown, "code -32600": unknown, "code -32700": unknown, "code 7": unknown,
		"code -32601": never, "code -32602": never, "code -32042": "cannot get here",
	} {
		t.Run(lie, func(t *testing.T) {
			t.Parallel()
			c, says := start(t, "liar "+lie, &mcp.Options{Timeout: timeoutOf(want)})
			args := "{}"
			if lie == "deaf" {
				args = `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
				says.await(t, "deaf")
			}
			_, err := run(t, t.Context(), c, "ok", args)
			judged(t, lie, err, want)
		})
	}
}

// What no agent can offer is refused at the beginning, and named.
func TestRefusedServers(t *testing.T) {
	for role, wants := range map[string][]string{
		"liar names": {
			`tool "a.b": models take no name like "a.b"`, `tool "list": its schema: it is not that of an object`,
			`tool "none": its schema`, `tool "long": its description has more than`, `tool "ref": its schema`,
			`tool "self": its schema: it refers to itself for the same value`,
			`tool "nil": its schema: it refers to "#/not"`,
		},
		"liar twice": {`it lists the tool "ok" twice`}, "liar endless": {"more than 1000 tools"},
		"liar list": {"its tools"}, "nobody": {"it has ended with exit status 1", "Stderr", "EOF"},
		"liar mute": {"it has not listed its tools in time"},
	} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			o := new(mcp.Options)
			if role == "liar mute" {
				o.StartTimeout = 5 * time.Second
			}
			c, err := mcp.Command(t.Context(), command(t, role, nil), o)
			if err == nil {
				shut(t, c)
				t.Fatal("no error")
			}
			for _, want := range wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v, want %s", err, want)
				}
			}
		})
	}
	c, err := mcp.Command(t.Context(), command(t, "liar names", nil), &mcp.Options{Only: []string{"ok"}, Prefix: "my-"})
	if err != nil || c.Tools()[0].Name != "my-ok" {
		t.Fatal(err)
	}
	shut(t, c)
}

func TestBadOptions(t *testing.T) {
	shop := command(t, "shop", nil)
	for want, o := range map[string]*mcp.Options{
		`tool "lok", which Only or Classes names`:    {Only: []string{"lok"}},
		`tool "paid", which Only or Classes names`:   {Classes: map[string]ledger.Class{"paid": ledger.Pure}},
		`Classes has an unknown class for "pay"`:     {Classes: map[string]ledger.Class{"pay": 7}},
		"must not be negative":                       {Timeout: -1},
		`models take no name like "my shop look"`:    {Prefix: "my shop "},
		`models take no name like "` + long + `look`: {Prefix: long},
	} {
		if _, err := mcp.Command(t.Context(), shop, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := mcp.Command(t.Context(), nil, nil); err == nil {
		t.Error("no command, and no error")
	}
	for _, address := range []string{"", "shop", "ftp://shop/mcp", "http:///mcp", "http://a b"} {
		if _, err := mcp.HTTP(t.Context(), address, nil); err == nil || !strings.Contains(err.Error(), "address") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

var long = strings.Repeat("x", 61)

// strike kills a process, as kill -9 does.
func strike(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(number)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A server that dies in the middle of a call leaves its outcome unknown. The next call starts it again.
func TestKilledServer(t *testing.T) {
	c, says := start(t, "shop", nil)
	for range 2 {
		pid := says.await(t, "pid")
		done := make(chan error)
		go func() {
			_, err := run(t, context.Background(), c, "hang", `{"order":"A"}`)
			done <- err
		}()
		says.await(t, "called hang")
		strike(t, pid)
		judged(t, "killed", <-done, unknown)
		if got, err := run(t, t.Context(), c, "look", `{"order":"A"}`); got != "seen A" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	_, err := run(t, t.Context(), c, "die", `{"order":"A"}`)
	judged(t, "died", err, unknown)
}

// A server that is dead between two calls is started again, and the call is executed once.
func TestDeadServer(t *testing.T) {
	c, says := start(t, "shop", nil)
	strike(t, says.await(t, "pid"))
	if _, err := run(t, t.Context(), c, "pay", `{"order":"A"}`); err != nil {
		judged(t, "dead", err, unknown) // the kernel may have taken the call before the server was gone
	}
	if got, err := run(t, t.Context(), c, "look", `{"order":"A"}`); got != "seen A" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A call that takes too long ends. A server that has said nothing meanwhile is started again; one that works goes on.
func TestTimeout(t *testing.T) {
	c, says := start(t, "liar silent", &mcp.Options{Timeout: 3 * time.Second})
	first := says.await(t, "pid")
	_, err := run(t, t.Context(), c, "ok", `{}`)
	judged(t, "silent", err, unknown)
	until := time.Now().Add(patience)
	_, err = run(t, t.Context(), c, "ok", `{}`)
	for !strings.Contains(err.Error(), "no answer within 3s") && time.Now().Before(until) { // it starts slowly
		_, err = run(t, t.Context(), c, "ok", `{}`)
	}
	if !strings.Contains(err.Error(), "no answer within 3s") {
		t.Error(err)
	}
	if second := says.await(t, "pid"); second == first {
		t.Error("it was not started again")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("stopped")
	done := make(chan error)
	busy, hears := start(t, "shop", nil)
	go func() {
		_, err := run(t, ctx, busy, "hang", `{"order":"A"}`)
		done <- err
	}()
	hears.await(t, "called hang")
	cancel(why)
	if err := <-done; !errors.Is(err, why) {
		t.Error(err)
	}
	if got, err := run(t, t.Context(), busy, "look", `{"order":"A"}`); got != "seen A" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if pid := hears.await(t, "called look"); pid != "key-1" || len(hears.all) > 0 {
		t.Error("it was started again")
	}
}

// A server that cannot be started again is away, and each call says so: nothing was sent.
func TestServerStaysAway(t *testing.T) {
	create, started := command(t, "shop", nil), 0
	c, err := mcp.Command(t.Context(), func() *exec.Cmd {
		if started++; started > 1 {
			return exec.Command(filepath.Join(t.TempDir(), "nothing"))
		}
		return create()
	}, &mcp.Options{Timeout: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer shut(t, c)
	_, err = run(t, t.Context(), c, "die", `{"order":"A"}`)
	judged(t, "died", err, unknown)
	began := time.Now()
	for range 10 {
		_, err = run(t, t.Context(), c, "pay", `{"order":"A"}`)
		judged(t, "away", err, "not executed: server mcp.test cannot be reached")
	}
	// Each try but the first one comes after a pause: of 100 ms, and then twice as long as the one before.
	if took, least := time.Since(began), 100*time.Millisecond<<max(started-2, 0); took < least {
		t.Errorf("started %d times in %v", started, took)
	}
}

// Close ends what is under way, and later calls are refused.
func TestClose(t *testing.T) {
	c, says := start(t, "shop", nil)
	done := make(chan error)
	go func() {
		_, err := run(t, context.Background(), c, "hang", `{"order":"A"}`)
		done <- err
	}()
	says.await(t, "called hang")
	shut(t, c)
	judged(t, "closed", <-done, unknown)
	_, err := run(t, t.Context(), c, "look", `{"order":"A"}`)
	judged(t, "closed", err, never)
	shut(t, c)
}

// A list that has changed is looked at before the next call.
func TestListChanges(t *testing.T) {
	c, says := start(t, "shop", &mcp.Options{Trust: true})
	if got, err := run(t, t.Context(), c, "change", `{"order":"A"}`); got != "changed" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	changed(t, c)
	says.await(t, "called change")
}

// changed checks the calls of a shop whose list has changed. The notice of it may come later than the result.
func changed(t *testing.T, c *mcp.Client) {
	t.Helper()
	for name, want := range map[string]string{
		"look": "no such tool", "pay": "the arguments do not fit", "hanglook": "it is not as harmless as it was",
	} {
		until := time.Now().Add(patience)
		_, err := run(t, t.Context(), c, name, `{"order":"A"}`)
		for (err == nil || !strings.Contains(err.Error(), want)) && time.Now().Before(until) {
			_, err = run(t, t.Context(), c, name, `{"order":"A"}`)
		}
		judged(t, name, err, never)
		judged(t, name, err, want)
	}
	if got, err := run(t, t.Context(), c, "pay", `{"order":"A","now":true}`); got != "paid" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
