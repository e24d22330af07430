package stream_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/redis/redisstream"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/tailtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
)

// wantRead checks how many chunks come after seq, and the error.
func wantRead(t *testing.T, s stream.Store, k stream.Key, seq int64, want int, wantErr error) {
	t.Helper()
	if n, err := read(t.Context(), s, k, seq); n != want || !errors.Is(err, wantErr) {
		t.Errorf("Read of %q after %d: %d chunks, %v; want %d, %v", k.Session, seq, n, err, want, wantErr)
	}
}

// wantDamaged checks that what comes after seq is gone, and damaged.
func wantDamaged(t *testing.T, s stream.Store, k stream.Key, seq int64) {
	t.Helper()
	if _, err := read(t.Context(), s, k, seq); !errors.Is(err, stream.ErrGone) || !errors.Is(err, stream.ErrDamaged) {
		t.Errorf("Read of %q after %d: %v", k.Session, seq, err)
	}
}

func wantAdded(t *testing.T, s stream.Store, k stream.Key, n int, want int64) {
	t.Helper()
	if last := add(t, s, k, 1, stream.Ended, n); last != want {
		t.Errorf("the last number of %q is %d, want %d", k.Session, last, want)
	}
}

// A session that is too old is not known, whether or not it is still stored. It begins anew, under any epoch.
func TestTTL(t *testing.T) {
	each(t, shared, func(t *testing.T, p place) {
		s := p.open(t, options{})
		add(t, s, key("a"), 7, stream.Active, 3)
		add(t, s, key("b"), 7, stream.Active, 3)
		waits := tailtest.Read(t, s, key("b"), 0)
		for range 3 {
			_, err := waits.Next()
			check(t, err)
		}
		p.expire(t)
		if last, _, status, err := s.Last(t.Context(), key("a")); last != 0 || status != stream.Ended || err != nil {
			t.Errorf("last is %d, %s, %v", last, status, err)
		}
		if starts, err := s.Starts(t.Context(), key("a")); len(starts) > 0 || err != nil {
			t.Errorf("the runs start at %v, %v", starts, err)
		}
		wantRead(t, s, key("a"), 2, 0, stream.ErrGone)
		wantRead(t, s, key("a"), 0, 0, nil)
		if err := waits.End(); !errors.Is(err, stream.ErrGone) {
			t.Errorf("a reader that waits: %v", err)
		}
		wantAdded(t, s, key("a"), 2, 2)
		wantRead(t, s, key("a"), 0, 2, nil)
	})
}

// What Redis keeps of a session expires when its TTL has passed since its last Append.
func TestRedisExpires(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	for _, ttl := range []time.Duration{0, 2 * time.Minute} {
		add(t, redisstream.New(client, &redisstream.Options{Prefix: prefix, TTL: ttl}), key("a"), 1, stream.Active, 3)
		want := cmp.Or(ttl, stream.DefaultTTL)
		if left := client.PTTL(t.Context(), shown(prefix, "a")).Val(); left > want || left < want-time.Minute {
			t.Errorf("it expires in %v, want %v", left, want)
		}
	}
}

// A negative TTL is the default.
func TestNegativeTTL(t *testing.T) {
	each(t, all, func(t *testing.T, p place) {
		s := p.open(t, options{ttl: -time.Hour})
		wantAdded(t, s, key("a"), 1, 1)
		if last, _, _, err := s.Last(t.Context(), key("a")); last != 1 || err != nil {
			t.Errorf("the last number is %d, %v", last, err)
		}
	})
}

// Sweep removes what is too old, with its chunks.
func TestSweep(t *testing.T) {
	each(t, tables, func(t *testing.T, p place) {
		s := p.open(t, options{})
		for i := range 50 {
			add(t, s, key(fmt.Sprint("old", i)), 1, stream.Active, 2)
		}
		p.expire(t)
		add(t, s, key("new"), 1, stream.Ended, 2)
		for _, limit := range []struct{ limit, want int }{{10, 10}, {0, 40}} {
			if n, err := s.(stream.Sweeper).Sweep(t.Context(), limit.limit); n != limit.want || err != nil {
				t.Errorf("Sweep(%d): %d, %v", limit.limit, n, err)
			}
		}
		const rows = "SELECT (SELECT count(*) FROM holdfast_streams) + (SELECT count(*) FROM holdfast_chunks)"
		if n := p.count(t, rows); n != 2 {
			t.Errorf("%d rows are left", n)
		}
		wantRead(t, s, key("new"), 0, 2, nil)
	})
}

// Sweeps and appends at once leave no rows that belong to nobody.
func TestSweepUnderAppends(t *testing.T) {
	each(t, tables, func(t *testing.T, p place) {
		s := p.open(t, options{ttl: time.Millisecond})
		over := make(chan error, 1)
		go func() {
			var err error
			for range 200 {
				_, swept := s.(stream.Sweeper).Sweep(t.Context(), 0)
				err = errors.Join(err, swept)
			}
			over <- err
		}()
		for done := false; !done; {
			for i := range 4 {
				add(t, s, key(fmt.Sprint("s", i)), 1, stream.Active, 1)
			}
			select {
			case err := <-over:
				done = true
				check(t, err)
			default:
			}
		}
		orphans := p.count(t, `SELECT count(*) FROM holdfast_chunks c WHERE NOT EXISTS (SELECT 1 FROM holdfast_streams s
			WHERE s.orchestrator = c.orchestrator AND s.session = c.session AND s.last >= c.last)`)
		if orphans != 0 {
			t.Errorf("%d rows of chunks belong to no session", orphans)
		}
	})
}

// Chunks that are no longer kept are removed.
func TestTrim(t *testing.T) {
	each(t, all, func(t *testing.T, p place) {
		s := p.open(t, options{keep: 10})
		for range 100 {
			add(t, s, key("a"), 1, stream.Active, 3)
			add(t, s, key("a"), 1, stream.Active, 0)
			if p.size == nil {
				continue
			}
			if n := p.size(t); n > p.most {
				t.Fatalf("%d are stored", n)
			}
		}
		add(t, s, key("a"), 1, stream.Ended, 50)
		wantRead(t, s, key("a"), 340, 10, nil)
		wantRead(t, s, key("a"), 339, 0, stream.ErrGone)
	})
}

// The next trim removes all chunks that are no longer kept, also if trims have failed, or Keep was larger before.
func TestPostgresTrimMore(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	o := &pgstream.Options{Keep: 100}
	s := pgtest.Create(t, p, pgstream.New(p, o))
	const where = `DELETE FROM "holdfast_chunks" WHERE orchestrator = $1 AND session = $2 AND last`
	failing := strings.Replace(where, "WHERE", "WHERE 1 / (SELECT 0) = 1 AND", 1)
	for name, before := range map[string]*pgstream.Store{
		"Keep was larger": pgstream.New(p, nil),
		"trims failed":    pgstream.New(pgtest.Tamper(p, where, failing), o),
	} {
		for range 60 {
			add(t, before, key(name), 1, stream.Active, 100)
		}
		add(t, s, key(name), 1, stream.Active, 100)
		add(t, s, key(name), 1, stream.Ended, 100)
		const left = "SELECT coalesce(sum(last - first + 1), 0) FROM holdfast_chunks WHERE session = $1"
		if n := pgtest.Value[int](t, p, left, name); n > 200 {
			t.Errorf("%s: %d chunks are left", name, n)
		}
		wantRead(t, s, key(name), 6100, 100, nil)
	}
}

// What no store has written is gone, and damaged. After Delete the session begins anew.
func TestDamage(t *testing.T) {
	each(t, shared, func(t *testing.T, p place) {
		s := p.open(t, options{})
		for name, spoil := range p.spoils {
			k := key(name)
			for range 3 {
				add(t, s, k, 1, stream.Ended, 2)
			}
			spoil.do(t, name)
			wantDamaged(t, s, k, 2)
			if spoil.head {
				_, _, _, last := s.Last(t.Context(), k)
				_, starts := s.Starts(t.Context(), k)
				_, appended := s.Append(t.Context(), k, "r", 1, stream.Ended, docs(1))
				if !errors.Is(last, stream.ErrDamaged) || !errors.Is(appended, stream.ErrDamaged) ||
					!errors.Is(starts, stream.ErrDamaged) || errors.Is(last, stream.ErrGone) {
					t.Errorf("%s: Last: %v, Append: %v, Starts: %v", name, last, appended, starts)
				}
			}
			check(t, s.Delete(t.Context(), k))
			wantAdded(t, s, k, 1, 1)
		}
	})
}

// The server cannot read a row.
func TestPostgresCorrupt(t *testing.T) {
	t.Parallel()
	_, p, s := onPostgres.Private(t, nil)
	pgtest.Exec(t, p, "ALTER TABLE holdfast_chunks ALTER data SET STORAGE EXTERNAL")
	big := json.RawMessage(`"` + strings.Repeat("x", 9000) + `"`)
	_, err := s.Append(t.Context(), key("a"), "r", 1, stream.Ended, []json.RawMessage{big})
	check(t, err)
	check(t, testenv.LoseChunk(t.Context(), p, "holdfast_chunks"))
	wantDamaged(t, s, key("a"), 0)
}

// Every Keep is taken: a negative one is the default, and a large one is the most.
func TestKeepExtremes(t *testing.T) {
	each(t, all, func(t *testing.T, p place) {
		for i, keep := range []int{math.MinInt, -1, stream.MaxKeep, math.MaxInt/2 + 1, math.MaxInt} {
			s, k := p.open(t, options{keep: keep}), key(fmt.Sprint(i))
			for want := range int64(3) {
				wantAdded(t, s, k, 1, want+1)
			}
			wantRead(t, s, k, 0, 3, nil)
		}
	})
}
