package redissnapshot

import (
	"embed"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
)

//go:embed lua
var sources embed.FS

// Each transition of a run, or of the index, is one script. A client repeats a request that got no answer. So each
// script may run twice, the second time long after the first.
var (
	beginScript  = redisstore.Script(sources, "run", "tell", "parts", "begin")
	adoptScript  = redisstore.Script(sources, "run", "tell", "parts", "adopt")
	saveScript   = redisstore.Script(sources, "run", "parts", "save")
	deleteScript = redisstore.Script(sources, "run", "delete")
	raiseScript  = redisstore.Script(sources, "run", "raise")
	lookScript   = redisstore.Script(sources, "run", "tell", "look")
)

// verdicts are the statuses of a reply that are errors.
var verdicts = map[string]error{"FENCED": lock.ErrFenced, "NONE": snapshot.ErrNotFound}
