package transcript_test

import (
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/faulttest"
	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/sqlitetest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

func TestStore(t *testing.T) { each(t, transcripttest.Run) }

// No number of a lost entry is given again after a Raise.
func TestRaise(t *testing.T) {
	raising := func(s transcript.Store) transcripttest.RaisingStore { return s.(transcripttest.RaisingStore) }
	each(t, func(t *testing.T, open func(t *testing.T) transcript.Store) {
		transcripttest.RunRaiser(t, func(t *testing.T) transcripttest.RaisingStore { return raising(open(t)) })
	})
	t.Run("cluster", func(t *testing.T) {
		open := onRedis.Numbered(redistest.Cluster(t))
		transcripttest.RunRaiser(t, func(t *testing.T) transcripttest.RaisingStore { return raising(open(t)) })
	})
}

// Random histories of one caller follow the model, and those of several callers are linearizable.
func TestModel(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) transcript.Store) {
		faulttest.TranscriptModel(t, open)
		faulttest.TranscriptHistories(t, open, faulttest.Histories())
	})
}

// On a cluster the sessions of a Copy may be on two nodes.
func TestRedisModelCluster(t *testing.T) {
	t.Parallel()
	client := redistest.Cluster(t)
	open := func(*testing.T) transcript.Store { return onRedis.New(client, "") }
	faulttest.TranscriptModel(t, open)
	faulttest.TranscriptHistories(t, open, faulttest.Histories())
}

// The suite passes on one connection, and with other names.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	transcripttest.Run(t, func(t *testing.T) transcript.Store {
		db := sqlitetest.Open(t, testenv.SQLite(t))
		db.SetMaxOpenConns(1)
		return onSQLite(t, db, "_My1")
	})
}

func TestStoreCluster(t *testing.T) {
	t.Parallel()
	transcripttest.Run(t, onRedis.Numbered(redistest.Cluster(t)))
}

func TestACLSuffices(t *testing.T) {
	t.Parallel()
	onRedis.TestACLSuffices(t)
}

func TestPrefix(t *testing.T) {
	t.Run("redis", onRedis.TestPrefix)
}

func isDamage(err error) bool { return errors.Is(err, transcript.ErrDamaged) }

// What tests fill a store with is read again.
func TestHelpers(t *testing.T) {
	each(t, func(t *testing.T, open func(t *testing.T) transcript.Store) {
		s := open(t)
		if last := say(t, s, "s", "a", "b"); last != span(2, 2) || heard(t, s, "s") != "a b" {
			t.Errorf("the last is %v of %q", last, heard(t, s, "s"))
		}
		for call, err := range calls(t.Context(), s) {
			if err != nil {
				t.Errorf("%s: %v", call, err)
			}
		}
	})
}
