package main

// A plan says which tests test a package. The quick ones need no server: they run on memory and SQLite.
type plan struct {
	pkg    string
	suites []suite
	// withServers says that the tests skip everything without a server. Such a plan is run with -servers only.
	withServers bool
}

// The tests left out take long and make crashes of files or processes: they find what no other test does only where a
// file is damaged.
const crashes = "Tear|Process|Killed|Crash|Bench"

var plans = []plan{
	{pkg: "./checkpoint", suites: []suite{{pkg: "./checkpoint"}, {pkg: "./checkpoint/checkpointtest"}}},
	{pkg: "./snapshot", suites: []suite{{pkg: "./snapshot"}, {pkg: "./snapshot/snapshottest"}}},
	{pkg: "./checkpoint/sqlitecheckpoint", suites: []suite{{pkg: "./checkpoint/sqlitecheckpoint", skip: crashes}}},
	{pkg: "./snapshot/sqlitesnapshot", suites: []suite{{pkg: "./snapshot/sqlitesnapshot", skip: crashes}}},
	{pkg: "./orchestrator", suites: []suite{{pkg: "./orchestrator"}, {pkg: "./internal/test/orchestrator"}}},
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
		pkg: "./snapshot/redissnapshot", suites: []suite{{pkg: "./snapshot/redissnapshot", skip: crashes}},
		withServers: true,
	},
}
