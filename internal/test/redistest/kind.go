package redistest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// A Kind is a kind of store on Redis. Its methods are tests that do not depend on what the store keeps.
type Kind[S any] struct {
	// New returns a store. "" is the default prefix.
	New func(client redis.UniversalClient, prefix string) S

	// Suite is that of the contract.
	Suite func(t *testing.T, newStore func(t *testing.T) S)

	// Calls calls every method and returns the errors by name.
	Calls func(ctx context.Context, s S) map[string]error

	// Tell makes calls on one session, and returns what each of them says. Model is a store that needs no Redis.
	Tell  func(ctx context.Context, s S) []string
	Model func() S

	// User is the user in docs/operations.md that may use the store.
	User string

	// Eviction is the error for a server that evicts.
	Eviction error
}

// Open returns a store with keys of its own.
func (k Kind[S]) Open(t *testing.T) S {
	t.Helper()
	client, prefix := testenv.Redis(t)
	return k.New(client, prefix)
}

// Numbered returns a maker of stores on one client, each with keys of its own.
func (k Kind[S]) Numbered(client redis.UniversalClient) func(t *testing.T) S {
	n := 0
	return func(*testing.T) S {
		n++
		return k.New(client, fmt.Sprintf("holdfast:%d:", n))
	}
}

// TestPrefix shows that a prefix which cannot begin every key is a mistake of the program.
func (k Kind[S]) TestPrefix(t *testing.T) { Prefixes(t, func(prefix string) { k.New(nil, prefix) }) }

// TestUnreachable checks a store on each server that cannot be reached.
func (k Kind[S]) TestUnreachable(t *testing.T, check func(t *testing.T, s S)) {
	for name, o := range Unreachable {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&o)
			defer client.Close()
			check(t, k.New(client, ""))
		})
	}
}

// TestACLSuffices runs the suite as a user with the documented rules, and returns a server with that user.
func (k Kind[S]) TestACLSuffices(t *testing.T) (admin, user *redis.Client) {
	_, admin = Server(t, redis.Options{})
	user = As(t, admin, RulesOf(t, k.User))
	k.Suite(t, k.Numbered(user))
	return admin, user
}

// TestEviction shows that a server which evicts is refused until it is configured well. The store writes nothing to it
// before.
func (k Kind[S]) TestEviction(t *testing.T) {
	t.Parallel()
	_, client := Server(t, redis.Options{})
	s := k.New(client, "")
	evict := func(policy string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
	}
	evict("allkeys-lru")
	for call, err := range k.Calls(t.Context(), s) {
		if !errors.Is(err, k.Eviction) || !strings.Contains(err.Error(), "allkeys-lru") {
			t.Errorf("%s: got %v, want %v", call, err, k.Eviction)
		}
	}
	if n := client.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys", n)
	}
	evict("noeviction")
	for call, err := range k.Calls(t.Context(), s) {
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}

func (k Kind[S]) told(t *testing.T) []string { return k.Tell(t.Context(), k.Model()) }

func (k Kind[S]) story(t *testing.T) Story {
	return func(client *redis.Client, prefix string) []string { return k.Tell(t.Context(), k.New(client, prefix)) }
}

// TestLostReply loses each answer in turn after its request took effect. The client repeats the request, and no verdict
// differs.
func (k Kind[S]) TestLostReply(t *testing.T) {
	t.Parallel()
	LoseReplies(t, k.told(t), k.story(t))
}

// TestLateCopy delays copies of requests. They change nothing.
func (k Kind[S]) TestLateCopy(t *testing.T) {
	t.Parallel()
	CopyLate(t, k.told(t), func(*Echo) Story { return k.story(t) })
}

// TestScriptFlush makes Redis forget the scripts. No verdict differs.
func (k Kind[S]) TestScriptFlush(t *testing.T) {
	t.Parallel()
	ForgetScripts(t, k.told(t), k.story(t))
}
