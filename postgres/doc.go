// Package postgres keeps everything that Holdfast keeps in a PostgreSQL: one value for a database, one method for each
// contract.
//
//	pg := postgres.New(pool, nil)
//	bot, err := orchestrator.New(def, pg.Checkpoints(), &orchestrator.Options{
//		Snapshots: pg.Snapshots(), Ledger: pg.Ledger(), Stream: pg.Stream(),
//	})
//
// Each contract may be in another database, or in memory. Stores of one DB do together what stores of one database can
// do: a turn settles and its run ends in one transaction, with the last entry of its turn log. The package is tested on
// PostgreSQL 15, and written for 12 or later.
//
// # Schema
//
// [DB.Up] creates the tables and brings them up to date, [DB.Check] only looks, and [DB.Schemas] are for an application
// with a set of goose migrations. The database must have the encoding UTF8: see [ErrEncoding]. docs/security.md has the
// rights that a role needs.
//
// # Connections
//
// The pool is the caller's: nothing here opens, closes or pings it, except for the one connection on which readers of a
// stream listen, and which the pool lends. No store keeps a state in a session of the database. So all work with a pool
// of one connection, and behind a pooler in transaction mode. PgBouncer before 1.21 needs QueryExecModeCacheDescribe or
// QueryExecModeExec of pgx. Statements run at READ COMMITTED, whatever the default of the role or the database is.
//
// # Durability
//
// What a promise rests on commits with synchronous_commit = on, or with remote_apply if that is the default. What may
// be lost in a crash of the server commits with off: marks, renewals, beats, and claims of sessions that were given
// back. A call that is repeated returns when what it reports is durable.
//
// # Tables
//
// They are safe to query. Their names begin with Options.Prefix.
//
//	sessions, turns               who owns each session, until when, and how far it has come; its settled turns
//	runs, run_parts               the runs in flight, and the fences of the last ones
//	effects, effect_fences, effect_raises  the ledger
//	phases, logged                the turn log: its entries, and one row for each run
//	streams, chunks               what readers are shown while turns run
//	inbox                         answers, and other items that wait to become an input
//	transcripts, messages         what was said: the newest number of each session, and one row for each entry
//	locks                         who holds each lock; it is not logged
//	workflow_runs, workflow_steps, workflow_signals  the runs of workflows, their journals and their mailboxes
//	workflow_definitions          which processes have had the code of which workflow
//	workflow_limits               how many runs of a workflow with a rate may begin
//	workflow_subscriptions        what is started for the messages of topics
//	beats, watches                the processes that own sessions or runs, which is not logged, and those that watch
//	sessions_sweep, runs_sweep, streams_sweep  how far Sweep has come
//	schema_version                the applied migrations
//
// In sessions an empty nonce means that the lease was given back. turn is the last settled turn (-1 for none), and owed
// the oldest settled turn whose reply was not delivered. failed counts the failed deliveries of turn owed. retry_at is
// when its next delivery is due (NULL: now). docs/operations.md has the queries that are of use on call.
package postgres
