package turnhttp_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/turnhttp"
)

const (
	manyReaders = 10_000

	// mostReaders is what Options.MaxReaders is without a value.
	mostReaders = 5_000

	// readersOf names the address for a child of the test that opens many readers.
	readersOf = "HOLDFAST_TEST_READERS_OF"
)

// Ten thousand readers come. As many as Options.MaxReaders allows stay, and see the end of the turn. The others are
// told at once to come back later. Turns are answered meanwhile. When the readers have left, nothing of them is left.
func TestManyReaders(t *testing.T) {
	if raced {
		t.Skip("the race detector is too slow for 10,000 connections")
	}
	if n := openFiles(); n < manyReaders+2000 {
		t.Skipf("a process may open %d files only", n)
	}
	w := newWorld()
	addr := onLoopback(t, turnhttp.Handler(w.bot(t, w.definition(), nil), w.options()))
	turn := make(chan int)
	post := func(session, message string) int {
		q := request{method: "POST", path: "/sessions/" + session + "/turns", key: "k", body: `{"message":"` + message + `"}`}
		q.header = map[string]string{"Connection": "close"}
		res, err := http.DefaultClient.Do(q.make(t.Context(), "http://"+addr.String()))
		if err != nil {
			t.Error(err)
			return 0
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	before := runtime.NumGoroutine()
	go func() { turn <- post("s", "slow one two") }()
	w.hold <- struct{}{}

	c := startReaders(t, addr)
	c.want(fmt.Sprintf("open %d, refused %d", mostReaders, manyReaders-mostReaders))
	began := time.Now()
	for i := range 5 {
		if code := post(fmt.Sprint("other", i), "say hello"); code != 200 {
			t.Errorf("a turn beside them is %d", code)
		}
	}
	t.Logf("beside them a turn takes %v", time.Since(began)/5)
	w.hold <- struct{}{}
	if code := <-turn; code != 200 {
		t.Errorf("the turn is %d", code)
	}
	c.want(fmt.Sprintf("saw the end %d", mostReaders))
	c.end()
	_ = reader(t, addr).Close()
	wait(t, func() bool { return runtime.NumGoroutine() <= before })
}

// A child is a process that opens readers.
type child struct {
	*testing.T
	cmd  *exec.Cmd
	says *bufio.Scanner
	errs bytes.Buffer
}

func startReaders(t *testing.T, addr net.Addr) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	c := &child{T: t, cmd: exec.CommandContext(ctx, exe)}
	c.cmd.Env = append(os.Environ(), readersOf+"="+addr.String())
	c.cmd.Stderr = &c.errs
	out, err := c.cmd.StdoutPipe()
	if err == nil {
		err = c.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c.says = bufio.NewScanner(out)
	return c
}

// want waits for a line that begins with text.
func (c *child) want(text string) {
	c.Helper()
	if !c.says.Scan() || !strings.HasPrefix(c.says.Text(), text) {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		c.Fatalf("the readers say %q, want %q\n%s", c.says.Text(), text, &c.errs)
	}
	c.Log(c.says.Text())
}

func (c *child) end() {
	c.Helper()
	if err := c.cmd.Wait(); err != nil {
		c.Errorf("%v\n%s", err, &c.errs)
	}
}

// readMany is the child. It opens the readers, tells how many stay, and reads these to their end.
func readMany(addr string) error {
	var (
		mu      sync.Mutex
		open    []net.Conn
		slowest time.Duration
		errs    []error
	)
	began := time.Now()
	places := make(chan struct{}, 64)
	var group sync.WaitGroup
	for range manyReaders {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			began := time.Now()
			conn, err := openReader(addr)
			took := time.Since(began)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
			case conn != nil:
				open = append(open, conn)
			default:
				slowest = max(slowest, took)
			}
		})
	}
	group.Wait()
	if len(errs) > 0 {
		return fmt.Errorf("%d readers have failed: %w", len(errs), errs[0])
	}
	fmt.Printf("open %d, refused %d in %v at most, all in %v\n",
		len(open), manyReaders-len(open), slowest, time.Since(began))
	for _, conn := range open {
		doc, err := io.ReadAll(conn)
		if err != nil || !bytes.Contains(doc, []byte("event: reply")) {
			return fmt.Errorf("a reader saw %q: %w", doc, err)
		}
		_ = conn.Close()
	}
	fmt.Printf("saw the end %d\n", len(open))
	return nil
}

// openReader opens a reader. The connection is nil if the reader was refused as it should be.
func openReader(addr string) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(50 * time.Second))
	const get = "GET /sessions/s/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	if _, err := fmt.Fprint(conn, get); err != nil {
		return nil, err
	}
	head := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, head); err != nil {
		return nil, err
	}
	if string(head) == "HTTP/1.1 200" {
		return conn, nil
	}
	defer conn.Close()
	rest, err := io.ReadAll(conn)
	all := string(head) + string(rest)
	for _, want := range []string{"HTTP/1.1 503", "\r\nRetry-After: 5\r\n", "/problems/too-many-readers"} {
		if !strings.Contains(all, want) {
			err = errors.Join(err, fmt.Errorf("%q has no %q", all, want))
		}
	}
	return nil, err
}
