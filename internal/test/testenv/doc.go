// Package testenv gives tests real servers: PostgreSQL, PgBouncer, Redis, a Redis
// cluster and SQLite files.
//
// [Postgres], [PostgresURL] and [Redis] share one server per kind and give a test
// an empty part of it. HOLDFAST_POSTGRES and HOLDFAST_REDIS are
// the URLs of the servers. [StartPostgres], [StartReplicated], [StartPgBouncer], [StartRedis],
// [StartRedisCluster] and [StartRedisPair] start servers of the test's own. A test
// can kill and stop them, and fill their disks.
//
// A test whose variable is not set is skipped and says why, even if it would start a
// server of its own and the machine has the programs. So go test starts no server
// unless make test, make db-up or their like have set the variables.
//
// The programs come from PATH, else from Debian's packages, the newest first. So
//
//	PATH=/opt/postgresql-18/bin:$PATH make db-up
//
// serves another PostgreSQL, and make versions tests on several. As root, servers run as the
// user postgres, who must be able to read that directory.
//
// If HOLDFAST_TEST_REQUIRED is 1, as under make test, a test fails where it would be
// skipped.
//
// A package that uses servers says so once:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
// A test of a crash of the database looks so:
//
//	server := testenv.StartPostgres(t, &testenv.Options{Durable: true})
//	… connect to server.URL and write …
//	server.Kill()
//	… calls fail …
//	server.Restart()
//	… every acknowledged write is there …
//
// Servers listen on loopback only. On Linux, they never outlive the process that
// started them, even when it is killed. A killed process leaves its data behind in
// the temporary directory. A process that ends in any other way removes its data.
//
// Only test files, the command in the directory run and internal/test/bench import this package.
package testenv
