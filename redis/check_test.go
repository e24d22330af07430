package redis

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/redistest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// wantUnfit checks that the error of Check names what the server or the user lacks; "" if nothing lacks.
func wantUnfit(t *testing.T, client redis.UniversalClient, lacks string) {
	t.Helper()
	err := New(client, nil).Check(t.Context())
	switch {
	case lacks == "" && err != nil:
		t.Error(err)
	case lacks != "" && (!errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), lacks)):
		t.Errorf("got %v, want an ErrUnfit that names %s", err, lacks)
	}
}

// tells skips a test on a server that cannot tell the rights of a user: Redis before 7.
func tells(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	if n, err := client.Eval(t.Context(), "return redis.acl_check_cmd and 1 or 0", nil).Int(); err != nil || n == 0 {
		t.Skip("this server does not tell the rights of a user", err)
	}
}

// The documented users suffice together, and so does the documented union of them. What a user lacks is named.
func TestCheckUser(t *testing.T) {
	t.Parallel()
	_, admin := redistest.Server(t, redis.Options{})
	tells(t, admin)
	rules := redistest.RulesOf(t, "db")
	both := slices.Concat(redistest.RulesOf(t, "shows"), redistest.RulesOf(t, "bot"))
	both = slices.DeleteFunc(both, func(rule string) bool { return rule == "-@all" || rule == "resetchannels" })
	for _, rule := range both {
		if !slices.Contains(rules, rule) {
			t.Errorf("the rules of db lack %s", rule)
		}
	}
	without := func(rule string) []string {
		return slices.DeleteFunc(slices.Clone(rules), func(r string) bool { return r == rule })
	}
	for _, c := range []struct {
		rules []string
		lacks string
	}{
		{rules, ""},
		{both, ""},
		{without("+info"), ""},
		{without("+hset"), "HSET on holdfast:*"},
		{without("&holdfast:*"), "PUBLISH"},
		{without("~holdfast:*"), "ZADD"},
		{without("+eval"), "'eval'"},
	} {
		wantUnfit(t, redistest.As(t, admin, c.rules), c.lacks)
	}
}

// The policy of a server is judged, and a server that is down is not called unfit.
func TestCheckServer(t *testing.T) {
	t.Parallel()
	server, client := redistest.Server(t, redis.Options{MaxRetries: -1})
	evicts(t, client, "allkeys-lru")
	wantUnfit(t, client, "maxmemory-policy is allkeys-lru")
	if err := New(client, nil).Check(t.Context()); !errors.Is(err, ErrEviction) {
		t.Errorf("got %v, want ErrEviction", err)
	}
	evicts(t, client, "noeviction")
	wantUnfit(t, client, "")
	server.Kill()
	if err := New(client, nil).Check(t.Context()); err == nil || errors.Is(err, ErrUnfit) {
		t.Errorf("a server that is down: %v", err)
	}
}

func evicts(t *testing.T, client *redis.Client, policy string) {
	t.Helper()
	if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
		t.Fatal(err)
	}
}

// Of a cluster each server is judged.
func TestCheckCluster(t *testing.T) {
	t.Parallel()
	nodes, admin := redistest.Nodes(t)
	grant := func(addr string, rules []string) {
		t.Helper()
		node := redis.NewClient(&redis.Options{Addr: addr})
		defer node.Close()
		redistest.As(t, node, rules)
	}
	rules := redistest.RulesOf(t, "db")
	for _, addr := range nodes.Addrs {
		grant(addr, rules)
	}
	user := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes.Addrs, Username: "bot", Password: "secret"})
	defer user.Close()
	wantUnfit(t, user, "")
	one, err := admin.MasterForKey(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	evicts(t, one, "allkeys-lru")
	wantUnfit(t, user, "allkeys-lru")
	evicts(t, one, "noeviction")
	tells(t, one)
	grant(one.Options().Addr, append(slices.Clone(rules), "-hset"))
	wantUnfit(t, user, "HSET")
}

// Check asks for the commands that the scripts call, and for no other.
func TestCheckKnowsScripts(t *testing.T) {
	files, err := filepath.Glob("../internal/redis/*/lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	called := commands(t, `(?:redis\.p?call|inChunks)\('([A-Z]+)'`, files...)
	if asked := commands(t, `\{'([A-Z]+)'`, "check.go"); !slices.Equal(asked, called) {
		t.Errorf("Check asks for %q, and the scripts call %q", asked, called)
	}
}

// commands returns what a pattern finds in files.
func commands(t *testing.T, pattern string, files ...string) []string {
	t.Helper()
	found := make(map[string]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
			found[match[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
