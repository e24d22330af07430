package pgturnlog_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/postgres/pgturnlog"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// grants are the lines of docs/security.md about the tables of a turn log.
func grants(t *testing.T) [][]string {
	t.Helper()
	doc := testenv.Doc(t, "security.md")
	all := regexp.MustCompile(`GRANT (.*) ON holdfast_(phases|logged) TO holdfast_service;`).FindAllStringSubmatch(doc, -1)
	if len(all) != 2 {
		t.Fatalf("docs/security.md has %q", all)
	}
	return all
}

// guarded returns a pool of a superuser, and a pool of the role that docs/security.md grants rights.
func guarded(t *testing.T) (admin, service *pgxpool.Pool) {
	server, admin, _ := private(t, nil)
	pgtest.Exec(t, admin, "CREATE ROLE holdfast_service LOGIN; GRANT USAGE ON SCHEMA public TO holdfast_service")
	return admin, pgtest.PoolOn(t, strings.Replace(server.URL, "postgres@", "holdfast_service@", 1))
}

// A role with the documented rights passes the suite.
func TestGrantsSuffice(t *testing.T) {
	t.Parallel()
	admin, service := guarded(t)
	n := 0
	turnlogtest.Run(t, func(t *testing.T) turnlog.Log {
		n++
		prefix := fmt.Sprintf("s%d_", n)
		l := pgturnlog.New(service, &pgturnlog.Options{Prefix: prefix})
		pgtest.Exec(t, admin, l.Schema())
		for _, g := range grants(t) {
			pgtest.Exec(t, admin, strings.Replace(g[0], "holdfast_", prefix, 1))
		}
		return l
	})
}

// Without any one of the documented rights something fails, and the error names what is not allowed.
func TestGrantsNeedAll(t *testing.T) {
	t.Parallel()
	admin, service := guarded(t)
	for _, g := range grants(t) {
		for right := range strings.SplitSeq(g[1], ", ") {
			for _, all := range grants(t) {
				pgtest.Exec(t, admin, all[0])
			}
			pgtest.Exec(t, admin, "TRUNCATE holdfast_phases, holdfast_logged")
			pgtest.Exec(t, admin, fmt.Sprintf("REVOKE %s ON holdfast_%s FROM holdfast_service", right, g[2]))
			l := pgturnlog.New(service, nil)
			err := errors.Join(l.Record(t.Context(), entry("run", turnlog.Started, 0)),
				l.Record(t.Context(), entry("run", turnlog.Settled, 1)),
				l.Record(t.Context(), entry("run", turnlog.Settled, 1)))
			_, pruned := l.Prune(t.Context(), at(5000))
			err = errors.Join(err, pruned)
			if !errors.Is(err, turnlog.ErrRefused) || !strings.Contains(err.Error(), "docs/security.md") ||
				!strings.Contains(err.Error(), "permission denied for table holdfast_"+g[2]) {
				t.Errorf("without %s on %s: %v", right, g[2], err)
			}
		}
	}
}
