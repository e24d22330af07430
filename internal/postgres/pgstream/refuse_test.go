package pgstream_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgstream"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/stream/streamtest"
)

// everyMethod returns the error of each method. The first two write.
func everyMethod(ctx context.Context, s *pgstream.Store) []error {
	_, appended := s.Append(ctx, key("a"), "r-1", 1, stream.Ended, docs(1))
	deleted := s.Delete(ctx, key("b"))
	_, _, _, last := s.Last(ctx, key("a"))
	_, read := readError(ctx, s, key("a"), 0)
	_, swept := s.Sweep(ctx, 0)
	return []error{appended, deleted, last, read, swept}
}

// Nothing was sent to a server that is down, to a host that has no address, or to a host that does not answer in time.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for name, c := range pgtest.Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pgstream.New(pgtest.PoolOn(t, c.URL, c.Configure), nil)
			for i, err := range everyMethod(t.Context(), s) {
				if !errors.Is(err, stream.ErrRefused) {
					t.Errorf("method %d: %v", i, err)
				}
			}
		})
	}
}

// A database that cannot store every text is refused before anything is written to it.
func TestEncoding(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, nil)
	for _, encoding := range []string{"LATIN1", "SQL_ASCII"} {
		s := create(t, pgtest.PoolOn(t, server.Database(encoding)), nil)
		for i, err := range everyMethod(t.Context(), s) {
			if !errors.Is(err, pgstream.ErrEncoding) || !strings.Contains(err.Error(), encoding+", which") {
				t.Errorf("%s, method %d: %v, want %v", encoding, i, err, pgstream.ErrEncoding)
			}
		}
	}
}

func TestSchemaMissing(t *testing.T) {
	t.Parallel()
	s := pgstream.New(testenv.Postgres(t), &pgstream.Options{Prefix: "none_"})
	for i, err := range everyMethod(t.Context(), s) {
		if !errors.Is(err, stream.ErrSchema) || !strings.Contains(err.Error(), "none_streams") ||
			!strings.Contains(err.Error(), "migrations.Up") {
			t.Errorf("method %d: %v", i, err)
		}
	}
}

// A standby that is taken for the primary writes nothing, and says that it is a standby. It can be read.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, nil)
	add(t, s, key("a"), 1, stream.Ended, 2)
	reading := pgtest.PoolOn(t, p.Config().ConnString(), func(c *pgxpool.Config) {
		c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	})
	for i, err := range everyMethod(t.Context(), pgstream.New(reading, nil)) {
		switch i {
		case 0, 1:
			if !errors.Is(err, stream.ErrRefused) || !strings.Contains(err.Error(), "read-only standby") {
				t.Errorf("method %d: %v", i, err)
			}
		default:
			if err != nil {
				t.Errorf("method %d: %v", i, err)
			}
		}
	}
}

// The schema may be run again beside readers, writers and a vacuum. It waits for none of them.
func TestSchemaAgain(t *testing.T) {
	t.Parallel()
	p := pgtest.EmptyPool(t)
	s := create(t, p, nil)
	tx, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	// A vacuum takes this lock. A writer takes a weaker one.
	const vacuum = "LOCK TABLE holdfast_streams, holdfast_chunks IN SHARE UPDATE EXCLUSIVE MODE"
	if _, err := tx.Exec(t.Context(), vacuum); err != nil {
		t.Fatal(err)
	}
	pgtest.Exec(t, p, "SET statement_timeout = '5s'; "+s.Schema())
}

// grants are the lines of docs/security.md about the tables of a stream store.
func grants(t *testing.T) [][]string {
	t.Helper()
	doc := testenv.Doc(t, "security.md")
	all := regexp.MustCompile(`GRANT (.*) ON holdfast_(streams|chunks|streams_sweep) TO holdfast_service;`).
		FindAllStringSubmatch(doc, -1)
	if len(all) != 3 {
		t.Fatalf("docs/security.md has %q", all)
	}
	return all
}

// guarded returns a pool of a superuser, and a pool of the role that docs/security.md grants rights.
func guarded(t *testing.T) (admin, service *pgxpool.Pool) {
	server := testenv.StartPostgres(t, nil)
	admin = pgtest.PoolOn(t, server.URL)
	pgtest.Exec(t, admin, "CREATE ROLE holdfast_service LOGIN; GRANT USAGE ON SCHEMA public TO holdfast_service")
	return admin, pgtest.PoolOn(t, strings.Replace(server.URL, "postgres@", "holdfast_service@", 1))
}

// A role with the documented rights passes the suite.
func TestGrantsSuffice(t *testing.T) {
	t.Parallel()
	admin, service := guarded(t)
	n := 0
	streamtest.Run(t, func(t *testing.T) stream.Store {
		n++
		prefix := fmt.Sprintf("s%d_", n)
		s := pgstream.New(service, &pgstream.Options{Prefix: prefix})
		pgtest.Exec(t, admin, s.Schema())
		for _, g := range grants(t) {
			pgtest.Exec(t, admin, strings.Replace(g[0], "holdfast_", prefix, 1))
		}
		return s
	})
}

// Without any one of the documented rights something fails, and the error names what is not allowed.
func TestGrantsNeedAll(t *testing.T) {
	t.Parallel()
	admin, service := guarded(t)
	create(t, admin, nil)
	s := pgstream.New(service, nil)
	for _, g := range grants(t) {
		for right := range strings.SplitSeq(g[1], ", ") {
			for _, all := range grants(t) {
				pgtest.Exec(t, admin, all[0])
			}
			pgtest.Exec(t, admin, "TRUNCATE holdfast_streams, holdfast_chunks, holdfast_streams_sweep")
			pgtest.Exec(t, admin, fmt.Sprintf("REVOKE %s ON holdfast_%s FROM holdfast_service", right, g[2]))
			_, swept := s.Sweep(t.Context(), 1)
			_, again := s.Sweep(t.Context(), 1)
			all := append(everyMethod(t.Context(), s), s.Delete(t.Context(), key("a")), swept, again)
			if err := errors.Join(all...); !errors.Is(err, stream.ErrRefused) ||
				!strings.Contains(err.Error(), "docs/security.md") ||
				!strings.Contains(err.Error(), "permission denied for table holdfast_"+g[2]) {
				t.Errorf("without %s on %s: %v", right, g[2], err)
			}
		}
	}
}
