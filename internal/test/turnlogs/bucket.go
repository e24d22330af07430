package turnlogs

import (
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
)

// A Bucket is an object store that is reached by HTTP, in memory. It lists its keys in any order. The zero value is
// ready.
type Bucket struct {
	mu      sync.Mutex // protects following field
	objects map[string][]byte
}

// Len returns how many objects there are.
func (b *Bucket) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.objects)
}

// ServeHTTP implements [http.Handler].
func (b *Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the request was cut off
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/")
	object, known := b.objects[key]
	switch {
	case key == "":
		keys := []string{}
		for key := range b.objects {
			if strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
				keys = append(keys, key)
			}
		}
		rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		_ = json.NewEncoder(w).Encode(keys)
	case r.Method == http.MethodPut && known && r.Header.Get("If-None-Match") == "*":
		w.WriteHeader(http.StatusPreconditionFailed)
	case r.Method == http.MethodPut:
		if b.objects == nil {
			b.objects = make(map[string][]byte)
		}
		b.objects[key] = body
	case known:
		_, _ = w.Write(object)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}
