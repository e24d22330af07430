package redistest

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// DocumentedRules returns the rules of the user bot in docs/operations.md.
func DocumentedRules(t *testing.T) []string {
	t.Helper()
	return RulesOf(t, "bot")
}

// RulesOf returns the rules of a user in docs/operations.md, without the user's name.
func RulesOf(t *testing.T, user string) []string {
	t.Helper()
	_, rules, ok := strings.Cut(testenv.Doc(t, "operations.md"), "ACL SETUSER "+user+" ")
	if !ok {
		t.Fatal("no ACL in docs/operations.md")
	}
	rules, _, _ = strings.Cut(rules, "```")
	return strings.Fields(strings.ReplaceAll(rules, "\\\n", " "))
}

// As makes a user with these rules, and returns a client that is this user.
func As(t *testing.T, admin *redis.Client, rules []string) *redis.Client {
	t.Helper()
	args := []any{"ACL", "SETUSER", "bot", "reset"}
	for _, r := range rules {
		args = append(args, r)
	}
	if err := admin.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	o := *admin.Options()
	o.Username, o.Password = "bot", "secret"
	client := redis.NewClient(&o)
	t.Cleanup(func() { client.Close() })
	return client
}
