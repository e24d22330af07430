package redisstore

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/store"
)

func TestRefusal(t *testing.T) {
	for text, want := range map[string]bool{
		"READONLY You can't write against a read only replica. script: 92bb468, on @user_script:1.":                               true,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                 true,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                                 true,
		"CLUSTERDOWN Hash slot not served":                                                                                        true,
		"MOVED 3999 127.0.0.1:6381":                                                                                               true,
		"ERR max number of clients reached":                                                                                       true,
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                        true,
		"ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -OOM command not allowed when used memory":      true,
		"ERR Error running script (call to f_1): @user_script:9: @user_script: 9: -WRONGTYPE Operation against a key":             false,
		"ERR The user executing the script can't run this command or subcommand script: 6cf16d8, on @user_script:1.":              false,
		"NOPERM ACL failure in script: User bot has no permissions to run the 'hset' command script: 6cf16d8, on @user_script:1.": false,
		"ERR Script attempted to access a non local key in a cluster node script: 6cf16d8, on @user_script:1.":                    false,
		"UNKNOWN": false,
	} {
		said := fmt.Errorf("wrapped: %w", redistest.Reply(text))
		if got := errors.Is(refusal(said, false), store.ErrRefused); got != want {
			t.Errorf("%s: refused is %v", text, got)
		}
		if doubtful := refusal(said, true); errors.Is(doubtful, store.ErrRefused) ||
			!errors.Is(doubtful, redistest.Reply(text)) {
			t.Errorf("%s: after a lost answer %v", text, doubtful)
		}
	}
	if err := refusal(io.EOF, false); !errors.Is(err, io.EOF) || errors.Is(err, store.ErrRefused) {
		t.Errorf("no answer: %v", err)
	}
}

// If a request may have been sent and got no answer, the outcome is in doubt.
func TestAttempt(t *testing.T) {
	for _, c := range []struct {
		err  error
		lost bool
	}{
		{nil, false},
		{redistest.Reply("OOM"), false},
		{redis.Nil, false},
		{&net.OpError{Op: "dial", Err: io.EOF}, false},
		{redis.ErrPoolTimeout, false},
		{&net.OpError{Op: "read", Err: io.EOF}, true},
		{&net.OpError{Op: "write", Err: io.EOF}, true},
		{io.EOF, true},
	} {
		a := &attempt{Cmd: new(redis.Cmd)}
		a.SetErr(c.err)
		a.SetErr(redistest.Reply("OOM"))
		if a.lost != c.lost {
			t.Errorf("%v: lost is %v", c.err, a.lost)
		}
	}
}
