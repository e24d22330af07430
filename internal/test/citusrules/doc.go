// Package citusrules finds the statements of a store that Citus would refuse, on tables that are distributed by
// session.
//
// Citus is not run. A [Recorder] makes PostgreSQL tell the parse tree of each statement, also of the statements inside
// functions. [Recorder.Broken] judges the trees by the rules of Citus' planner. For statements that write, these are
// ModifyQuerySupported and ErrorIfOnConflictNotSupported. For statements that lock, the rule is one shard. If Citus
// would do the work in several steps, this package is stricter than Citus: a write names the session, and so does a
// query of more than one table.
//
// Only tests import this package.
package citusrules
