package redischeckpoint

import (
	"embed"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
	"github.com/holdfast-go/holdfast/lock"
)

//go:embed lua
var sources embed.FS

// Each transition of a session, or of an index, is one script. A client repeats a request that got no answer, so each
// script may run twice, the second time long after the first.
var (
	claimScript  = redisstore.Script(sources, "session", "claim")
	heldScript   = redisstore.Script(sources, "session", "held")
	headScript   = redisstore.Script(sources, "session", "head")
	renewScript  = redisstore.Script(sources, "session", "renew")
	appendScript = redisstore.Script(sources, "session", "append")
	markScript   = redisstore.Script(sources, "session", "mark")
	turnsScript  = redisstore.Script(sources, "session", "turns")
	deleteScript = redisstore.Script(sources, "session", "delete")
	raiseScript  = redisstore.Script(sources, "session", "raise")
	enterScript  = redisstore.Script(sources, "entry", "enter")
	dropScript   = redisstore.Script(sources, "entry", "drop")
	lookScript   = redisstore.Script(sources, "look")
)

// verdicts are the verdicts of scripts that are errors. HELD is a checkpoint.HeldError, which Claim makes of its
// values.
var verdicts = map[string]error{"FENCED": lock.ErrFenced, "CONFLICT": checkpoint.ErrConflict}
