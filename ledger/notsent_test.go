package ledger_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
)

// refused returns the error of a dial that a port without a listener refuses.
func refused(t *testing.T) error {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:1")
	if err == nil {
		_ = c.Close()
		t.Fatal("a closed port takes a connection")
	}
	return err
}

// cutOff returns the error of a request that the server reads, and then closes the connection.
func cutOff(t *testing.T, reset bool) error {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(c, make([]byte, len("pay")))
		if reset {
			_ = c.(*net.TCPConn).SetLinger(0)
		}
		_ = c.Close()
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "pay"); err != nil {
		t.Fatal(err)
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// unknownName returns the error of a name that nobody has.
func unknownName(t *testing.T) error {
	t.Helper()
	_, err := net.Dial("tcp", "nobody.invalid:443")
	return err
}

// NotSent marks what proves that nothing was sent. Whatever may have come after a connection is no proof.
func TestNotSent(t *testing.T) {
	dial := refused(t)
	if !errors.Is(dial, syscall.ECONNREFUSED) {
		t.Fatal(dial)
	}
	_, ofClient := http.Get("http://" + dial.(*net.OpError).Addr.String()) //nolint:errorlint,bodyclose // it fails
	_, lookup := net.LookupHost("nobody.invalid")
	endless := new(wrapsItself)
	endless.err = endless
	op := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"a refused port":                     {dial, true},
		"a refused port, wrapped":            {fmt.Errorf("charge: %w", dial), true},
		"a name that nobody has":             {unknownName(t), true},
		"a lookup":                           {lookup, true},
		"a proxy that refuses":               {op("proxyconnect", dial), true},
		"a proxy that breaks off":            {op("proxyconnect", io.EOF), false},
		"a server that closes":               {cutOff(t, false), false},
		"a server that resets":               {cutOff(t, true), false},
		"an answer that a port refused":      {op("read", syscall.ECONNREFUSED), false}, // as UDP says it
		"a dial in the middle of a write":    {op("write", dial), false},
		"only the number":                    {syscall.ECONNREFUSED, false},
		"joined with another":                {errors.Join(io.ErrUnexpectedEOF, dial), false},
		"wrapped with another":               {fmt.Errorf("%w after %w", dial, io.EOF), false},
		"of a client, which may have sent":   {ofClient, false},
		"a nil pointer":                      {(*net.OpError)(nil), false},
		"a nil pointer of a lookup":          {fmt.Errorf("%w", (*net.DNSError)(nil)), false},
		"an Unwrap that panics":              {panics{}, false},
		"an As that says anything":           {liar{}, false},
		"an error that wraps itself":         {endless, false},
		"something else":                     {io.EOF, false},
		"what another one has marked so far": {ledger.NotDone(io.EOF), true},
	} {
		got := ledger.NotSent(c.err)
		switch {
		case !c.want && got != c.err: //nolint:errorlint // some cannot be asked
			t.Errorf("%s is marked", name)
		case c.want && !ledger.IsNotDone(got):
			t.Errorf("%s: %v is not marked", name, got)
		case c.want && got.Error() != c.err.Error():
			t.Errorf("%s: %q became %q", name, c.err, got)
		}
	}
	if ledger.NotSent(nil) != nil {
		t.Error("no error became one")
	}
}

type wrapsItself struct{ err error }

func (*wrapsItself) Error() string   { return "endless" }
func (w *wrapsItself) Unwrap() error { return w.err }

type panics struct{}

func (panics) Error() string { return "panics" }
func (panics) Unwrap() error { panic("Unwrap") }

type liar struct{}

func (liar) Error() string { return "liar" }
func (liar) As(target any) bool {
	if to, ok := target.(**net.OpError); ok {
		*to = &net.OpError{Op: "dial"}
		return true
	}
	return false
}
