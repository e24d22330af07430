package pgsnapshot_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/snapshot"
)

// A database that cannot store every text is refused before anything is written to it.
func TestEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		s := create(t, pgtest.PoolOn(t, server.Database(encoding)), nil)
		r := run("a")
		_, begun := s.Begin(t.Context(), r)
		_, adopted := s.Adopt(t.Context(), r.Key, r.Fence, 3)
		_, swept := s.Sweep(t.Context(), 1)
		_, raised := s.Raise(t.Context(), time.Time{})
		var listed error
		for _, err := range s.Runs(t.Context(), snapshot.Query{Key: snapshot.Key{Orchestrator: "bot"}}) {
			listed = err
		}
		for i, err := range []error{
			begun, adopted, swept, raised, listed, s.Save(t.Context(), r), s.Delete(t.Context(), r.Key, r.ID, r.Fence),
		} {
			if !errors.Is(err, pgsnapshot.ErrEncoding) || !strings.Contains(err.Error(), encoding+", which") {
				t.Errorf("%s, method %d: %v, want %v", encoding, i, err, pgsnapshot.ErrEncoding)
			}
		}
	}
}
