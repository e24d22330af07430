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

var plans = []plan{
	{pkg: "./checkpoint", suites: []suite{{pkg: "./checkpoint"}, {pkg: "./checkpoint/checkpointtest"}}},
	{pkg: "./snapshot", suites: []suite{{pkg: "./snapshot"}, {pkg: "./snapshot/snapshottest"}}},
	{pkg: "./ledger", suites: []suite{{pkg: "./ledger"}, {pkg: "./ledger/ledgertest"}}},
	{pkg: "./turnlog", suites: []suite{{pkg: "./turnlog"}, {pkg: "./turnlog/turnlogtest"}}},
	{pkg: "./checkpoint/sqlitecheckpoint", suites: []suite{
		{pkg: "./checkpoint/sqlitecheckpoint", skip: crashes},
		{pkg: "./snapshot/sqlitesnapshot", run: "Join|StatementFails"},
	}},
	{pkg: "./snapshot/sqlitesnapshot", suites: []suite{{pkg: "./snapshot/sqlitesnapshot", skip: crashes}}},
	{pkg: "./ledger/sqliteledger", suites: []suite{{pkg: "./ledger/sqliteledger", skip: crashes}}},
	{pkg: "./inbox", suites: []suite{{pkg: "./inbox"}, {pkg: "./inbox/inboxtest"}}},
	{pkg: "./inbox/sqliteinbox", suites: []suite{{pkg: "./inbox/sqliteinbox", skip: crashes}}},
	{pkg: "./turnlog/sqliteturnlog", suites: []suite{{pkg: "./turnlog/sqliteturnlog", skip: crashes}}},
	{pkg: "./stream", suites: []suite{{pkg: "./stream"}, {pkg: "./stream/streamtest"}}},
	{pkg: "./internal/tail", suites: []suite{{pkg: "./internal/tail"}}},
	{pkg: "./stream/sqlitestream", suites: []suite{{pkg: "./stream/sqlitestream", skip: crashes}}},
	{pkg: "./orchestrator", suites: []suite{
		{pkg: "./orchestrator"},
		{pkg: "./orchestrator/orchestratortest"},
		{pkg: "./internal/test/engine/orchestrator", skip: slow},
		{pkg: "./internal/test/engine/turnlogs"},
	}},
	{
		pkg: "./checkpoint/pgcheckpoint", suites: []suite{{pkg: "./checkpoint/pgcheckpoint", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./checkpoint/redischeckpoint", suites: []suite{{pkg: "./checkpoint/redischeckpoint", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./snapshot/pgsnapshot", suites: []suite{{pkg: "./snapshot/pgsnapshot", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./ledger/pgledger", suites: []suite{{pkg: "./ledger/pgledger", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./turnlog/pgturnlog", suites: []suite{{pkg: "./turnlog/pgturnlog", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./inbox/pginbox", suites: []suite{{pkg: "./inbox/pginbox", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./inbox/redisinbox", suites: []suite{{pkg: "./inbox/redisinbox", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./stream/pgstream", suites: []suite{{pkg: "./stream/pgstream", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./stream/redisstream", suites: []suite{{pkg: "./stream/redisstream", skip: crashes}},
		withServers: true,
	},
	{
		pkg: "./snapshot/redissnapshot", suites: []suite{{pkg: "./snapshot/redissnapshot", skip: crashes}},
		withServers: true,
	},
}
