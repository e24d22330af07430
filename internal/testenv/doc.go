// Package testenv gives tests real servers: PostgreSQL, PgBouncer, Redis, a Redis
// cluster and SQLite files.
//
// [Postgres], [PostgresURL] and [Redis] share one server per kind and hand out
// an empty corner of it: the servers that HOLDFAST_TEST_POSTGRES_URL and
// HOLDFAST_TEST_REDIS_URL name, else ones that this process starts on first
// use. [StartPostgres], [StartReplicated], [StartPgBouncer], [StartRedis],
// [StartRedisCluster] and [StartRedisPair] start servers of the test's own, to be killed, stopped and
// starved of disk.
//
// The programs are those of PATH, else those of Debian's packages, the newest first. So
//
//	PATH=/opt/postgresql-18/bin:$PATH go test ./checkpoint/pgcheckpoint
//
// tests on another PostgreSQL, and make versions on several. As root, servers run as the
// user postgres, who must be able to read that directory.
//
// Where a server cannot be had the test is skipped with the reason, unless
// HOLDFAST_TEST_REQUIRED is 1, as it is under make test: then it fails.
//
// A package that uses servers says so once:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// A test of what a crash of the database does to a call:
//
//	server := testenv.StartPostgres(t, &testenv.Options{Durable: true})
//	… connect to server.URL and write …
//	server.Kill()
//	… calls fail …
//	server.Restart()
//	… and what was acknowledged is there …
//
// Servers listen on loopback only and, on Linux, never outlive the process that
// started them, even when it is killed. A killed process leaves its data behind
// in the temporary directory; every other end removes it.
//
// Only test files, the command in the directory run and internal/test/bench import this package.
package testenv
