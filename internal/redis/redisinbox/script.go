package redisinbox

import (
	"embed"

	"github.com/holdfast-go/holdfast/internal/redis/redisstore"
)

//go:embed lua
var sources embed.FS

// Each step is one script. A client repeats a request that got no answer. So each script may run twice, the second time
// long after the first.
var (
	postScript   = redisstore.Script(sources, "box", "post")
	removeScript = redisstore.Script(sources, "box", "remove")
	itemScript   = redisstore.Script(sources, "box", "item")
	itemsScript  = redisstore.Script(sources, "box", "items")
)
