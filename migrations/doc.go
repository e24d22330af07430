// Package migrations creates the tables of Holdfast's stores on PostgreSQL and SQLite, and brings them up to date.
//
// There are four ways to use it:
//
//   - [Up] is for programs that leave the schema to Holdfast. Call it when the program starts, before it uses a store.
//     Up notes the applied migrations in its own table, holdfast_schema_version. It does not disturb the application's
//     goose.
//   - [Check] is for programs that may not change the schema. It tells what Up would have to do, what was dropped, and
//     that a later version has changed the schema.
//   - [FromSchema] is for applications that have goose migrations already. It makes one such migration of the schemas
//     of the stores in use.
//   - [FS] is for other tools, and for going back. It has the migrations that Up applies, as files in goose's format.
//
// Up and Check are about the default prefix, "holdfast_". The methods of [Tables] do the same under another prefix. The
// packages postgres and sqlite call these methods: their DB has an Up and a Check of its own.
//
// Tables live where the prefix says, or else where the database puts new tables: on PostgreSQL in the first schema of
// the search path that exists. A schema may appear before the schema of the tables,
// such as a schema with the name of the user. Then Up and Check continue with the existing tables. Up and the schemas
// of the stores refuse to create new tables, which would hide the existing ones.
//
// # Many processes
//
// Any number of processes may call Up at once, also while others use the stores. Each migration is applied once, in a
// transaction that begins with the insertion of its version. A unique index makes the other processes wait for the end
// of that transaction. If it committed, they go on with the next migration. There is no lock that a crash leaves behind
// or that expires too early, and no state in a database session. So Up works through a transaction pooler and with a
// pool of one connection.
//
// PostgreSQL must be version 12 or later. The role that applies a migration needs the right to create tables in the
// schema. If no migration is to be applied, the right to read holdfast_schema_version is enough. Behind a pooler pgx
// needs its usual settings: with PgBouncer before 1.21, QueryExecModeCacheDescribe or QueryExecModeExec. To make a
// *sql.DB of a *pgxpool.Pool, call stdlib.OpenDBFromPool of github.com/jackc/pgx/v5/stdlib.
//
// On SQLite, if the driver is modernc.org/sqlite, Up waits for other writers. The busy timeout of the data source name
// makes no difference.
package migrations
