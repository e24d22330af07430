package redisstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store"
)

// refusals are the codes of errors that Redis returns before a script has written. Once a script has written, Redis
// lets it go on and does not return these codes. The value is the remedy, if the error itself does not show it.
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

	// Redirections that the client no longer follows, and errors about the cluster.
	"ASK":                               "",
	"MOVED":                             "",
	"ERR max number of clients reached": "",
}

// passing are the codes of refusals that may be over in a moment. The client itself would repeat these commands too.
var passing = map[string]bool{
	"CLUSTERDOWN": true, "LOADING": true, "MASTERDOWN": true, "NOREPLICAS": true, "READONLY": true, "TRYAGAIN": true,
	"ERR max number of clients reached": true,

	gone: true,
}

// gone is the code of a script whose key went to another node while its slot moved: the key had expired. The script may
// have had an effect or not, but it may run again.
const gone = "gone"

// code returns the code of an error that Redis returned. If a command in a script failed, code returns that command's
// code.
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
	// The script lacked a permission when it may have written. Redis 7.2 and later say NOPERM.
	case strings.Contains(text, "in script"):
		return ""
	}
	word, _, _ := strings.Cut(text, " ")
	return word
}

// refusal adds store.ErrRefused to an error which says that nothing was written. With doubt, an earlier copy may have
// written, and the result has no store.ErrRefused.
func refusal(err error, doubt bool) error {
	if !doubt && unsent(err) {
		return fmt.Errorf("%w: %w", store.ErrRefused, err)
	}
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
	return fmt.Errorf("%w: %s%w", store.ErrRefused, remedy, err)
}
