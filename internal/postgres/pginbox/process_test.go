package pginbox_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/postgres/pginbox"
	"github.com/holdfast-go/holdfast/internal/test/boxtest"
	"github.com/holdfast-go/holdfast/internal/test/pgtest"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.MainWith(m, boxtest.Roles(openURL)) }

func openURL(url string) (inbox.Store, func(), error) {
	p, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return nil, nil, err
	}
	return pginbox.New(p, nil), p.Close, nil
}

// Several processes answer the same questions at once.
func TestProcesses(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	boxtest.TestProcesses(t, create(t, pgtest.PoolOn(t, url), nil), url)
}

// A process is killed while it posts.
func TestKilled(t *testing.T) {
	t.Parallel()
	url := testenv.PostgresURL(t)
	boxtest.TestKilled(t, create(t, pgtest.PoolOn(t, url), nil), url)
}
