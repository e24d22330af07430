package bootdrain_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/postgres/pgcheckpoint"
	"github.com/holdfast-go/holdfast/internal/redis/redischeckpoint"
	"github.com/holdfast-go/holdfast/internal/sqlite/sqlitecheckpoint"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
	"github.com/holdfast-go/holdfast/migrations"
)

// claims makes a session, which needs a connection.
func claims(ctx context.Context, s checkpoint.Store, session string) error {
	_, err := s.Claim(ctx, checkpoint.Key{Orchestrator: "bot", Session: session},
		checkpoint.ClaimRequest{Owner: "test", Nonce: "n", TTL: time.Minute})
	return err
}

// By the DSN of docs/security.md a server is used that has the name and the authority's word, and no other.
func TestTLSOfPostgres(t *testing.T) {
	authority, certificate, key := testenv.Certificate(t, "127.0.0.1")
	another, _, _ := testenv.Certificate(t, "127.0.0.1")
	server := testenv.StartPostgres(t, &testenv.Options{
		Settings: map[string]string{"ssl": "on", "ssl_cert_file": certificate, "ssl_key_file": key},
	})
	dsn := func(host, authority string) string {
		return strings.NewReplacer("127.0.0.1", host, "sslmode=disable", "sslmode=verify-full&sslrootcert="+authority).
			Replace(server.URL)
	}
	p := openPool(t, dsn("127.0.0.1", authority))
	s := pgcheckpoint.New(p, nil)
	runSQL(t, p, s.Schema())
	if err := claims(t.Context(), s, "a"); err != nil {
		t.Error(err)
	}
	var encrypted bool
	err := p.QueryRow(t.Context(), "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").Scan(&encrypted)
	if err != nil || !encrypted {
		t.Errorf("the connection is encrypted: %v, %v", encrypted, err)
	}
	for _, c := range []struct{ host, authority string }{{"localhost", authority}, {"127.0.0.1", another}} {
		err := claims(t.Context(), pgcheckpoint.New(openPool(t, dsn(c.host, c.authority)), nil), "b")
		if !unverified(err) {
			t.Errorf("at %s: %v, want an error of the certificate", c.host, err)
		}
	}
}

// unverified reports whether err is of a certificate that is not believed.
func unverified(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

func TestTLSOfRedis(t *testing.T) {
	authority, certificate, key := testenv.Certificate(t, "127.0.0.1")
	port := freePort(t)
	testenv.StartRedis(t, &testenv.Options{Settings: map[string]string{
		"tls-port": port, "tls-cert-file": certificate, "tls-key-file": key, "tls-ca-cert-file": authority,
		"tls-auth-clients": "no",
	}})
	client := func(host string) *redis.Client {
		o, err := redis.ParseURL("rediss://" + host + ":" + port + "/0")
		if err != nil {
			t.Fatal(err)
		}
		pem, err := os.ReadFile(authority)
		if err != nil {
			t.Fatal(err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		o.TLSConfig.RootCAs.AppendCertsFromPEM(pem)
		o.MaxRetries = -1
		c := redis.NewClient(o)
		t.Cleanup(func() { c.Close() })
		return c
	}
	if err := claims(t.Context(), redischeckpoint.New(client("127.0.0.1"), nil), "a"); err != nil {
		t.Error(err)
	}
	if err := claims(t.Context(), redischeckpoint.New(client("localhost"), nil), "b"); !unverified(err) {
		t.Errorf("by another name: %v, want an error of the certificate", err)
	}
}

// freePort returns a port that was free a moment ago, below those that clients get.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(30000 + rand.IntN(2000))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			defer l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// What a store says of a server that it cannot reach, or that does not know it, has no password.
func TestNoPasswordGoesOut(t *testing.T) {
	const password = "zq7x-password"
	const closed = "127.0.0.1:1"
	server := testenv.StartRedis(t, nil)
	for _, dsn := range []string{
		"postgres://alice:" + password + "@" + closed + "/db?sslmode=disable",
		"host=127.0.0.1 port=1 user=alice password=" + password + " dbname=db sslmode=disable",
	} {
		p, err := pgxpool.New(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		err = claims(t.Context(), pgcheckpoint.New(p, nil), "a")
		if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "user=alice") {
			t.Errorf("without a server: %v", err)
		}
	}
	if _, err := pgx.ParseConfig("postgres://alice:" + password + "@:notaport/db"); err == nil ||
		strings.Contains(err.Error(), password) {
		t.Errorf("of a DSN that cannot be read: %v", err)
	}
	for _, addr := range []string{closed, strings.TrimSuffix(strings.TrimPrefix(server.URL, "redis://"), "/0")} {
		c := redis.NewClient(&redis.Options{Addr: addr, Username: "alice", Password: password, MaxRetries: -1})
		defer c.Close()
		err := claims(t.Context(), redischeckpoint.New(c, nil), "a")
		if err == nil || strings.Contains(err.Error(), password) {
			t.Errorf("of Redis: %v", err)
		}
	}
}

// What SQLite makes beside a file has the mode of the file.
func TestFileModes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bot.db")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	dsn := "file:" + path + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db := migrated(t, "sqlite", dsn, migrations.SQLite)
	if err := claims(t.Context(), sqlitecheckpoint.New(db, nil), "a"); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) != 3 {
		t.Fatalf("the files are %q, %v", files, err)
	}
	for _, name := range files {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, mode)
		}
	}
}
