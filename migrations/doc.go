// Package migrations creates the tables of Holdfast's stores on PostgreSQL and SQLite, and brings them up to date.
//
// There are four ways to use it:
//
//   - [Up] is for programs that leave it to Holdfast: call it when the program starts, before anything uses a store.
//     It keeps its records in a table of its own, holdfast_schema_version, and does not disturb the application's goose.
//   - [Check] is for programs that may not change the schema: it tells what Up would have to do, or what somebody dropped.
//   - [FromSchema] is for tables with a prefix of the program's own, and for applications that have goose migrations
//     already: it makes one of them of what the stores in use need.
//   - [FS] is for other tools, and for going back: the migrations that Up applies, as files in goose's format.
//
// All but FromSchema are about the default prefix, "holdfast_". Tables live where the database puts new ones: on
// PostgreSQL in the first schema of the search path that exists. If a schema appears before theirs, as one with the
// name of the user does, Up and Check go on with the tables that are there. Up and the schemas of the stores refuse to
// create new ones, which would hide them.
//
// # Many processes
//
// Any number of processes may call Up at once, also while others use the stores. Each migration is applied once, in a
// transaction that begins with the insertion of its version: a unique index makes the others wait for that transaction to
// end, and pass on to the next migration if it committed. There is no lock that a crash leaves behind or that expires too
// early, and no state in a database session, so Up works through a transaction pooler and with a pool of one connection.
//
// PostgreSQL must be version 12 or later. Who applies a migration needs the right to create tables in the schema; where
// nothing is to be applied, the right to read holdfast_schema_version is enough. A pooler needs what pgx needs behind it:
// with PgBouncer before 1.21 that is its QueryExecModeCacheDescribe or QueryExecModeExec. A *pgxpool.Pool becomes a
// *sql.DB by stdlib.OpenDBFromPool of github.com/jackc/pgx/v5/stdlib.
//
// On SQLite, Up waits for other writers whatever the busy timeout of the data source name is, if the driver is
// modernc.org/sqlite.
package migrations
