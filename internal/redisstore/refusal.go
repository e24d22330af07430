package redisstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// refusals are the codes of errors by which Redis answers before a script has written anything. A script that has written
// is not stopped for one of these reasons: Redis lets it go on. The value says what to do about it, if that is not plain.
var refusals = map[string]string{
	"BUSY":        "",
	"CLUSTERDOWN": "",
	"LOADING":     "",
	"MASTERDOWN":  "this is a replica without its master: connect to the master, or by Sentinel: ",
	"MISCONF":     "",
	"NOAUTH":      "",
	"NOPERM":      "the user lacks a permission: docs/operations.md has those that suffice: ",
	"NOREPLICAS":  "",
	"OOM":         "",
	"READONLY":    "this is a read-only replica: connect to the master, or by Sentinel: ",
	"TRYAGAIN":    "",
	"WRONGPASS":   "",

	// Redirections that the client has given up on, and what it could not be told.
	"ASK":                               "",
	"MOVED":                             "",
	"ERR max number of clients reached": "",
}

// passing are the codes of refusals that may be over in a moment: the client would repeat these too.
var passing = map[string]bool{
	"CLUSTERDOWN": true, "LOADING": true, "MASTERDOWN": true, "NOREPLICAS": true, "READONLY": true, "TRYAGAIN": true,
	"ERR max number of clients reached": true,

	gone: true,
}

// gone is the code of a script whose key has gone to another node while its slot moved: it had expired. Nothing is known of
// what the script did before, but it may run again.
const gone = "gone"

// code returns the code of an error that Redis has answered. Of an error in a script it is that of the command that failed.
func code(err error) string {
	text := err.Error()
	if _, cause, ok := strings.Cut(text, ": -"); ok && strings.HasPrefix(text, "ERR Error running script") {
		text = cause // Redis before 7
	}
	const full = "ERR max number of clients reached"
	switch {
	case strings.HasPrefix(text, full):
		return full
	case strings.Contains(text, "access a non local key"):
		return gone
	case strings.Contains(text, "in script"): // a script lacked a permission when it may have written: NOPERM since Redis 7.2
		return ""
	}
	word, _, _ := strings.Cut(text, " ")
	return word
}

// refusal makes r.Refused of an error that says that nothing was written. With doubt an earlier copy may have been.
func (r *Runner) refusal(err error, doubt bool) error {
	said, ok := errors.AsType[redis.Error](err)
	if !ok {
		return err
	}
	remedy, refused := refusals[code(said)]
	switch {
	case !refused:
		return err
	case doubt:
		return fmt.Errorf("refused, after a request that was not answered: %s%w", remedy, err)
	}
	return fmt.Errorf("%w: %s%w", r.Refused, remedy, err)
}
