package pgstate

const level = `CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END`

// SQL that decides what the commit of its transaction waits for. It is evaluated in the statement that commits, because
// a statement of its own would cost a round trip.
const (
	// Level is what a durable commit waits for: the disk, here and on the synchronous standbys. It is remote_apply if
	// that is what the role, the database or the session asks for.
	Level = level

	// Durable makes the commit durable. It is never null.
	Durable = `set_config('synchronous_commit', ` + level + `, true)`

	// DurableAgain is Durable where an earlier statement of the transaction may have set synchronous_commit to off. Then
	// the level of the role or the database is read from pg_settings, which costs milliseconds.
	DurableAgain = `set_config('synchronous_commit',
		CASE WHEN (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit') = 'remote_apply'
			THEN 'remote_apply' ELSE ` + level + ` END, true)`

	// Firm is true, and makes the commit wait until all that the statement sees is durable. A commit that was cut off
	// while it waited for a standby is visible, and goes with the primary. PostgreSQL waits for the standby only after a
	// write, so Firm writes a message to the log that concerns no row and that nobody has to read.
	Firm = `(` + Durable + ` <> '' AND pg_logical_emit_message(true, 'holdfast', '') IS NOT NULL)`
)
