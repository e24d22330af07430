package main

import (
	"context"
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// refused wants a turn to be refused for now: its client is told to come back.
func (c client) refused(t *testing.T, session, key, text string) {
	t.Helper()
	var problem struct{ Retryable bool }
	status, err := c.call(t.Context(), http.MethodPost, "/sessions/"+session+"/turns", key,
		map[string]string{"message": text}, &problem)
	if err != nil || status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout ||
		!problem.Retryable {
		t.Errorf("status %d, %+v, %v", status, problem, err)
	}
}

// The database is away for a while. Clients are told so, and the service is well again by itself.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t, &testenv.Options{Durable: true})
	pays := refundtest.StartProvider(t)
	client := service(t, stores.Config{Dir: t.TempDir(), DatabaseURL: server.URL}, pays).client()
	client.say(t, "ada", "1", "Hello")
	server.Kill()
	client.refused(t, "eve", "1", "I want a refund for A-1007")
	server.Restart()
	if said, err := client.insist(t.Context(), "eve", "1", "I want a refund for A-1007"); err != nil || said.Turn != 0 {
		t.Errorf("%+v, %v", said, err)
	}
	if now, err := client.standing(t.Context(), "ada"); err != nil || now.Turn != 0 {
		t.Errorf("%+v, %v", now, err)
	}
	pays.WantPaid(t, "A-1007")
}

// Redis is away for a while, and then has lost its memory. No turn that was acknowledged is lost.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t, nil)
	pays := refundtest.StartProvider(t)
	c := refundtest.Config(t, "postgres")
	c.RedisURL = server.URL
	client := service(t, c, pays).client()
	client.say(t, "ada", "1", "I want a refund for A-1007")
	server.Kill()
	client.refused(t, "ada", "2", "I want a refund for A-1013")
	server.Restart()
	if said, err := client.insist(t.Context(), "ada", "2", "I want a refund for A-1013"); err != nil || said.Turn != 1 {
		t.Errorf("%+v, %v", said, err)
	}
	options, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	direct := redis.NewClient(options)
	defer direct.Close()
	if err := direct.FlushAll(context.WithoutCancel(t.Context())).Err(); err != nil {
		t.Fatal(err)
	}
	if said, err := client.insist(t.Context(), "ada", "3", "Hello"); err != nil || said.Turn != 2 {
		t.Errorf("%+v, %v", said, err)
	}
	if now, err := client.standing(t.Context(), "ada"); err != nil || len(now.Turns) != 3 {
		t.Errorf("%+v, %v", now, err)
	}
	pays.WantPaid(t, "A-1007", "A-1013")
}
