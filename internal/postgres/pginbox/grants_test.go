package pginbox_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/inbox/inboxtest"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// grant returns the line of docs/security.md about the table of an inbox, and the rights in it.
func grant(t *testing.T) (line string, rights []string) {
	t.Helper()
	doc := testenv.Doc(t, "security.md")
	all := regexp.MustCompile(`GRANT (.*) ON holdfast_inbox TO holdfast_service;`).FindAllStringSubmatch(doc, -1)
	if len(all) != 1 {
		t.Fatalf("docs/security.md has %q", all)
	}
	return all[0][0], strings.Split(all[0][1], ", ")
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
	line, _ := grant(t)
	n := 0
	inboxtest.Run(t, func(t *testing.T) inbox.Store {
		n++
		prefix := fmt.Sprintf("s%d_", n)
		s := pginbox.New(service, &pginbox.Options{Prefix: prefix})
		pgtest.Exec(t, admin, s.Schema())
		pgtest.Exec(t, admin, strings.Replace(line, "holdfast_", prefix, 1))
		return s
	})
}

// Without any one of the documented rights something fails, and the error names what is not allowed.
func TestGrantsNeedAll(t *testing.T) {
	t.Parallel()
	admin, service := guarded(t)
	line, rights := grant(t)
	for _, right := range rights {
		pgtest.Exec(t, admin, line)
		pgtest.Exec(t, admin, fmt.Sprintf("REVOKE %s ON holdfast_inbox FROM holdfast_service", right))
		err := errors.Join(everyMethod(t.Context(), pginbox.New(service, nil))...)
		if !errors.Is(err, inbox.ErrRefused) || !strings.Contains(err.Error(), "docs/security.md") ||
			!strings.Contains(err.Error(), "permission denied for table holdfast_inbox") {
			t.Errorf("without %s: %v", right, err)
		}
	}
}
