package pgtest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// grants are the lines of docs/security.md about the tables of a store, each with its rights and its table.
func (k Kind[S]) grants(t *testing.T) [][]string {
	t.Helper()
	line := regexp.MustCompile(`GRANT (.*) ON holdfast_(` + strings.Join(k.Tables, "|") + `) TO holdfast_service;`)
	all := line.FindAllStringSubmatch(testenv.Doc(t, "security.md"), -1)
	if len(all) != len(k.Tables) {
		t.Fatalf("docs/security.md has %q", all)
	}
	return all
}

// guarded returns a pool of a superuser, and a pool of the role that docs/security.md grants rights.
func guarded(t *testing.T) (admin, service *pgxpool.Pool) {
	t.Helper()
	server := testenv.StartPostgres(t, nil)
	admin = PoolOn(t, server.URL)
	Exec(t, admin, "CREATE ROLE holdfast_service LOGIN; GRANT USAGE ON SCHEMA public TO holdfast_service")
	return admin, PoolOn(t, strings.Replace(server.URL, "postgres@", "holdfast_service@", 1))
}

// TestGrantsSuffice runs the suite as a role with the documented rights.
func (k Kind[S]) TestGrantsSuffice(t *testing.T) {
	t.Parallel()
	admin, service := guarded(t)
	n := 0
	k.Suite(t, func(t *testing.T) S {
		n++
		prefix := fmt.Sprintf("s%d_", n)
		s := k.create(t, admin, k.New(service, prefix))
		for _, g := range k.grants(t) {
			Exec(t, admin, strings.Replace(g[0], "holdfast_", prefix, 1))
		}
		return s
	})
}

// TestGrantsNeedAll shows that without any one of the documented rights something fails, and that the error names what
// is not allowed.
func (k Kind[S]) TestGrantsNeedAll(t *testing.T) {
	t.Parallel()
	admin, service := guarded(t)
	asAdmin := k.On(t, admin, "")
	for _, g := range k.grants(t) {
		for right := range strings.SplitSeq(g[1], ", ") {
			for _, all := range k.grants(t) {
				Exec(t, admin, all[0])
			}
			Exec(t, admin, "TRUNCATE holdfast_"+strings.Join(k.Tables, ", holdfast_"))
			k.Fill(t, asAdmin)
			Exec(t, admin, fmt.Sprintf("REVOKE %s ON holdfast_%s FROM holdfast_service", right, g[2]))
			s := k.New(service, "")
			var failed error
			for range 2 {
				for _, err := range k.Calls(t.Context(), s) {
					failed = errors.Join(failed, err)
				}
			}
			if !errors.Is(failed, k.Refused) ||
				!says(failed, "docs/security.md", "permission denied for table holdfast_"+g[2]) {
				t.Errorf("without %s on %s: %v", right, g[2], failed)
			}
		}
	}
}
