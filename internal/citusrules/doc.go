// Package citusrules finds in what a store sends to PostgreSQL what Citus would refuse of it, on tables that are
// distributed by session.
//
// Citus is not run. A [Recorder] makes PostgreSQL tell the parse tree of each statement, also of those inside functions,
// and [Recorder.Broken] judges the trees by the rules of Citus' planner: those of ModifyQuerySupported and
// ErrorIfOnConflictNotSupported for what writes, and one shard for what locks. It is stricter than Citus where Citus would
// do the work in several steps: a write names the session, and so does a query of more than one table.
//
// Only tests import this package.
package citusrules
