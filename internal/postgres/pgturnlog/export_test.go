package pgturnlog

import "strings"

// Broken returns a log with another text in place of a part of the named statement, which must have that part. Both
// have the placeholders of the real statements.
func (l *Log) Broken(statement, part, instead string) *Log {
	broken := *l
	s := map[string]*string{
		"record": &broken.sql.record, "known": &broken.sql.known, "restore": &broken.sql.restore, "list": &broken.sql.list,
		"idle": &broken.sql.idle, "lock": &broken.sql.lock, "forget": &broken.sql.forget,
	}[statement]
	if s == nil || !strings.Contains(*s, l.Fill(part)) {
		panic("no such part of " + statement + ": " + part)
	}
	*s = strings.ReplaceAll(*s, l.Fill(part), l.Fill(instead))
	return &broken
}

// Fill replaces the placeholders by the names of the log's tables.
func (l *Log) Fill(sql string) string { return fill(l.prefix, sql) }
