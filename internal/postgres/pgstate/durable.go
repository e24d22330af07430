package pgstate

const level = `CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END`

// These expressions decide what the commit of their transaction waits for. They are evaluated in the statement that
// commits, because a separate statement would cost a round trip.
const (
	// Level is the level of a durable commit, which waits for the disk, here and on the synchronous standbys. If the
	// role, the database or the session asks for remote_apply, Level is remote_apply.
	Level = level

	// Durable makes the commit durable. It is never null.
	Durable = `set_config('synchronous_commit', ` + level + `, true)`

	// Lazy makes the commit not wait for the disk.
	Lazy = `set_config('synchronous_commit', 'off', true)`

	// clock is the server's clock, in microseconds.
	clock = `(extract(epoch FROM clock_timestamp()) * 1e6)::bigint`

	// DurableAgain is Durable for a transaction in which an earlier statement may have set synchronous_commit to off.
	// It reads the level of the role or the database from pg_settings, which costs milliseconds.
	DurableAgain = `set_config('synchronous_commit',
		CASE WHEN (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') = 'remote_apply'
			THEN 'remote_apply' ELSE ` + level + ` END, true)`

	// Firm is true, and makes the commit wait until everything that the statement sees is durable. If a commit was cut
	// off while it waited for a standby, it is visible, and is lost with the primary. PostgreSQL waits for the standby
	// only after a write. So Firm writes a message to the log, which concerns no row and need not be read.
	Firm = `(` + Durable + ` <> '' AND pg_logical_emit_message(true, 'holdfast', '') IS NOT NULL)`
)
