package transcript_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/transcript"
)

func TestMain(m *testing.M) {
	roles := make(map[string]testenv.Role)
	for name, do := range map[string]func(s transcript.Store, say func(appended)) error{
		"append": appendAll, "contend": contend,
	} {
		roles[name] = func(where string, out io.Writer) error {
			s, end, err := openWhere(where)
			if err != nil {
				return err
			}
			defer end()
			w := json.NewEncoder(out)
			return do(s, func(a appended) { _ = w.Encode(a) })
		}
	}
	testenv.MainWith(m, roles)
}

// openWhere opens the store of a URL, which a space may divide from a prefix.
func openWhere(where string) (transcript.Store, func(), error) {
	url, prefix, _ := strings.Cut(where, " ")
	if strings.HasPrefix(url, "redis:") {
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, nil, err
		}
		client := redis.NewClient(o)
		return onRedis.New(client, prefix), func() { client.Close() }, nil
	}
	p, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, nil, err
	}
	return onPostgres.New(p, prefix), p.Close, nil
}

// shared are stores that processes share, by database. They return where another process finds the store.
var shared = map[string]func(t *testing.T) (s transcript.Store, where string){
	"postgres": func(t *testing.T) (transcript.Store, string) {
		url := testenv.PostgresURL(t)
		return onPostgres.On(t, pgtest.PoolOn(t, url), ""), url
	},
	"redis": func(t *testing.T) (transcript.Store, string) {
		client, prefix := testenv.Redis(t)
		o := client.Options()
		return onRedis.New(client, prefix), fmt.Sprintf("redis://%s/%d %s", o.Addr, o.DB, prefix)
	},
}

func processes(t *testing.T, test func(t *testing.T, s transcript.Store, where string)) {
	for name, open := range shared {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, where := open(t)
			test(t, s, where)
		})
	}
}

// An appended entry is what a process was told of an id.
type appended struct {
	ID   string
	Span transcript.Span
}

// heardOf passes what a process says to each, until each returns false, and kills the process then.
func heardOf(t *testing.T, c testenv.Child, each func(a appended) (more bool)) {
	t.Helper()
	for c.Out.Scan() {
		var a appended
		check(t, json.Unmarshal(c.Out.Bytes(), &a))
		if !each(a) {
			check(t, c.Cmd.Process.Kill())
			_ = c.Cmd.Wait() // it was killed
			return
		}
	}
	check(t, c.Cmd.Wait())
}

// appendAll appends without an end.
func appendAll(s transcript.Store, say func(appended)) error {
	for n := 0; ; n++ {
		id := fmt.Sprint(os.Getpid(), " ", n)
		span, err := s.Append(context.Background(), key("s"), id, append(said(id), said(id)...))
		if err != nil {
			return err
		}
		say(appended{id, span})
	}
}

// What Append has answered is there after its process was killed. A repeat by another process finds it.
func TestKilled(t *testing.T) {
	processes(t, func(t *testing.T, s transcript.Store, where string) {
		all, next := []appended{}, int64(1)
		for round := range 5 {
			left := 5 + 10*round
			heardOf(t, testenv.StartRole(t, "append", where), func(a appended) bool {
				all = append(all, a)
				left--
				return left > 0
			})
		}
		for _, a := range all {
			again, err := s.Append(t.Context(), key("s"), a.ID, said("another"))
			got, failed := read(t.Context(), s, "s", a.Span)
			err = errors.Join(err, failed)
			if err != nil || again != a.Span || !slices.Equal(got, []string{a.ID, a.ID}) {
				t.Errorf("entry %s was answered with %v, and is %v: %q, %v", a.ID, a.Span, again, got, err)
			}
			if a.Span.From < next {
				t.Errorf("entry %s has the numbers %v, after %d", a.ID, a.Span, next-1)
			}
			next = a.Span.Through + 1
		}
	})
}

// contend appends entries of this process, and such as all processes append.
func contend(s transcript.Store, say func(appended)) error {
	for n := range 100 {
		id := fmt.Sprint("shared ", n)
		if n%2 == 0 {
			id = fmt.Sprint(os.Getpid(), " ", n)
		}
		span, err := s.Append(context.Background(), key("s"), id, append(said(id), said(id)...))
		if err != nil {
			return err
		}
		say(appended{id, span})
	}
	return nil
}

// Several processes append at once. Each id has one entry, each number was given once, and none is left out.
func TestProcesses(t *testing.T) {
	processes(t, func(t *testing.T, s transcript.Store, where string) {
		var children []testenv.Child
		for range 3 {
			children = append(children, testenv.StartRole(t, "contend", where))
		}
		spans, ids := make(map[string]transcript.Span), make(map[int64]string)
		for _, c := range children {
			heardOf(t, c, func(a appended) bool {
				if was, known := spans[a.ID]; known && was != a.Span {
					t.Errorf("%q is %v, and was %v", a.ID, a.Span, was)
				}
				if other, given := ids[a.Span.From]; given && other != a.ID {
					t.Errorf("%q and %q are both %d", a.ID, other, a.Span.From)
				}
				spans[a.ID], ids[a.Span.From] = a.Span, a.ID
				return true
			})
		}
		if n := len(spans); n != 3*50+50 {
			t.Errorf("%d entries", n)
		}
		for i, text := range strings.Split(heardAll(t, s, 2*len(spans)), "\n") {
			if id := ids[int64(i/2*2+1)]; text != id {
				t.Errorf("message %d is of %q, want %q", i+1, text, id)
			}
		}
	})
}

// heardAll returns the texts of the first n messages.
func heardAll(t *testing.T, s transcript.Store, n int) string {
	t.Helper()
	all, err := read(t.Context(), s, "s", span(1, int64(n)))
	if check(t, err); len(all) != n {
		t.Errorf("%d messages, want %d", len(all), n)
	}
	return strings.Join(all, "\n")
}
