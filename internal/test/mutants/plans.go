package main

// A plan says which tests test a package. The quick ones need no server: they run on memory and SQLite.
type plan struct {
	pkg    string
	suites []suite
	// withServers says that the tests skip everything without a server. Such a plan is run with -servers only.
	withServers bool
}

// crashes are tests that tear files or kill processes. They take long.
const crashes = "Tear|Process|Kill|Crash|Bench"

// slow are the tests of the engine that take longer than all others together: a crash at each point, and the largest
// documents.
const slow = "Everywhere|HangsInBytes|Fat|Heaviest|ManySessions|KeepNoMemory|InputLimit|LargestOfBoth|BesideInput|" +
	"UnreadStream|LargeState|Convict|Chaos|TestSize|AsStored|StateLimit|Allocations|Strangers|ContextsLeft"

// These match the tests of a package below internal/test/stores which are of other databases than the one.
const (
	notMemory   = "^Test(Postgres|Redis|SQLite)|/^(postgres|functions|redis|sqlite)$"
	notSQLite   = "^Test(Postgres|Redis)|/^(memory|postgres|functions|redis)$"
	notPostgres = "^Test(Redis|SQLite)|/^(memory|redis|sqlite)$"
	notRedis    = "^Test(Postgres|SQLite)|/^(memory|postgres|functions|sqlite)$"
)

// onSQLite returns the tests that run a case on SQLite over all contracts, for one of them.
func onSQLite(contract string) suite {
	return suite{pkg: "./internal/test/stores/sqlite", run: "/^" + contract + "$", skip: crashes}
}

var plans = []plan{
	{pkg: "./checkpoint", suites: []suite{
		{pkg: "./checkpoint"},
		{pkg: "./checkpoint/checkpointtest"},
		{pkg: "./internal/test/stores/checkpoint", skip: notMemory},
	}},
	{pkg: "./snapshot", suites: []suite{
		{pkg: "./snapshot"},
		{pkg: "./snapshot/snapshottest"},
		{pkg: "./internal/test/stores/snapshot", skip: notMemory},
	}},
	{pkg: "./ledger", suites: []suite{
		{pkg: "./ledger"}, {pkg: "./ledger/ledgertest"}, {pkg: "./internal/test/stores/ledger", skip: notMemory},
	}},
	{pkg: "./turnlog", suites: []suite{
		{pkg: "./turnlog"}, {pkg: "./turnlog/turnlogtest"}, {pkg: "./internal/test/stores/turnlog", skip: notMemory},
	}},
	{pkg: "./internal/sqlite/sqlitecheckpoint", suites: []suite{
		{pkg: "./internal/sqlite/sqlitecheckpoint", skip: crashes},
		onSQLite("checkpoint"),
		{pkg: "./internal/test/stores/checkpoint", skip: notSQLite + "|" + crashes},
		{pkg: "./internal/test/stores/snapshot", run: "Join$|StatementFails/^sqlite$"},
	}},
	{
		pkg: "./internal/sqlite/sqlitesnapshot",
		suites: []suite{
			onSQLite("snapshot"),
			{pkg: "./internal/test/stores/snapshot", skip: notSQLite + "|" + crashes},
		},
	},
	{pkg: "./internal/sqlite/sqliteledger", suites: []suite{
		{pkg: "./internal/test/stores/ledger", skip: notSQLite}, onSQLite("ledger"),
	}},
	{pkg: "./inbox", suites: []suite{
		{pkg: "./inbox"}, {pkg: "./inbox/inboxtest"}, {pkg: "./internal/test/stores/inbox", skip: notMemory},
	}},
	{
		pkg:    "./internal/sqlite/sqliteinbox",
		suites: []suite{{pkg: "./internal/test/stores/inbox", skip: notSQLite + "|" + crashes}, onSQLite("inbox")},
	},
	{
		pkg:    "./internal/sqlite/sqliteturnlog",
		suites: []suite{{pkg: "./internal/test/stores/turnlog", skip: notSQLite + "|" + crashes}, onSQLite("turnlog")},
	},
	{pkg: "./stream", suites: []suite{
		{pkg: "./stream"}, {pkg: "./stream/streamtest"}, {pkg: "./internal/test/stores/stream", skip: notMemory},
	}},
	{pkg: "./transcript", suites: []suite{
		{pkg: "./transcript"},
		{pkg: "./transcript/transcripttest"},
		{pkg: "./internal/test/stores/transcript", skip: notMemory},
	}},
	{pkg: "./internal/tail", suites: []suite{{pkg: "./internal/tail"}}},
	{
		pkg:    "./internal/sqlite/sqlitestream",
		suites: []suite{{pkg: "./internal/test/stores/stream", skip: notSQLite + "|" + crashes}, onSQLite("stream")},
	},
	{
		pkg: "./internal/sqlite/sqlitetranscript",
		suites: []suite{
			{pkg: "./internal/test/stores/transcript", skip: notSQLite + "|" + crashes}, onSQLite("transcript"),
		},
	},
	{
		pkg: "./internal/sqlite/sqliteworkflow",
		suites: []suite{
			{pkg: "./internal/test/stores/workflow", skip: notSQLite + "|" + crashes},
			onSQLite("workflow"),
			{pkg: "./internal/test/stores/sqlite", run: "^TestFlow|^TestTornStep$"},
		},
	},
	{pkg: "./orchestrator", suites: []suite{
		{pkg: "./orchestrator", skip: slow},
		{pkg: "./orchestrator/orchestratortest"},
		{pkg: "./internal/test/engine/orchestrator", skip: slow},
		{pkg: "./internal/test/engine/turnlogs"},
	}},
	{
		pkg: "./internal/postgres/pgcheckpoint",
		suites: []suite{
			{pkg: "./internal/postgres/pgcheckpoint", skip: crashes},
			{pkg: "./internal/test/stores/checkpoint", skip: notPostgres + "|" + crashes},
		},
		withServers: true,
	},
	{
		pkg: "./internal/redis/redischeckpoint",
		suites: []suite{
			{pkg: "./internal/redis/redischeckpoint", skip: crashes},
			{pkg: "./internal/test/stores/checkpoint", skip: notRedis + "|" + crashes},
		},
		withServers: true,
	},
	{
		pkg: "./internal/postgres/pgsnapshot",
		suites: []suite{
			{pkg: "./internal/postgres/pgsnapshot"},
			{pkg: "./internal/test/stores/snapshot", skip: notPostgres + "|" + crashes},
		},
		withServers: true,
	},
	{
		pkg:         "./internal/postgres/pgledger",
		suites:      []suite{{pkg: "./internal/test/stores/ledger", skip: notPostgres + "|" + crashes}},
		withServers: true,
	},
	{
		pkg:         "./internal/postgres/pgturnlog",
		suites:      []suite{{pkg: "./internal/test/stores/turnlog", skip: notPostgres + "|" + crashes}},
		withServers: true,
	},
	{
		pkg:         "./internal/postgres/pginbox",
		suites:      []suite{{pkg: "./internal/test/stores/inbox", skip: notPostgres + "|" + crashes}},
		withServers: true,
	},
	{
		pkg:         "./internal/postgres/pgtranscript",
		suites:      []suite{{pkg: "./internal/test/stores/transcript", skip: notPostgres + "|" + crashes}},
		withServers: true,
	},
	{
		pkg:         "./internal/postgres/pgworkflow",
		suites:      []suite{{pkg: "./internal/test/stores/workflow", skip: notPostgres + "|" + crashes}},
		withServers: true,
	},
	{
		pkg: "./internal/redis/redisinbox",
		suites: []suite{
			{pkg: "./internal/redis/redisinbox"},
			{pkg: "./internal/test/stores/inbox", skip: notRedis + "|" + crashes},
		},
		withServers: true,
	},
	{
		pkg: "./internal/redis/redistranscript",
		suites: []suite{
			{pkg: "./internal/redis/redistranscript"},
			{pkg: "./internal/test/stores/transcript", skip: notRedis + "|" + crashes},
		},
		withServers: true,
	},
	{
		pkg:         "./internal/postgres/pgstream",
		suites:      []suite{{pkg: "./internal/test/stores/stream", skip: notPostgres + "|" + crashes}},
		withServers: true,
	},
	{
		pkg:         "./internal/redis/redisstream",
		suites:      []suite{{pkg: "./internal/test/stores/stream", skip: notRedis + "|" + crashes}},
		withServers: true,
	},
	{
		pkg: "./internal/redis/redissnapshot",
		suites: []suite{
			{pkg: "./internal/redis/redissnapshot"},
			{pkg: "./internal/test/stores/snapshot", skip: notRedis + "|" + crashes},
		},
		withServers: true,
	},
}
