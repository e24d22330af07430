package pgstate

import (
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/internal/sqlname"
)

// Unhidden returns a statement that fails if new tables would hide existing ones. They would if a table exists in a
// schema that comes later in the search path than the schema of new tables. If the prefix names the schema, Unhidden
// returns "".
func Unhidden(p sqlname.Prefix, tables ...string) string {
	if p.Qualified() {
		return ""
	}
	found := make([]string, len(tables))
	for i, t := range tables {
		found[i] = "to_regclass('" + p.Table(t) + "')"
	}
	return `DO $$ DECLARE elsewhere text; BEGIN
    SELECT relnamespace::regnamespace INTO elsewhere FROM pg_class
    WHERE oid IN (` + strings.Join(found, ", ") + `)
        AND relnamespace::regnamespace <> quote_ident(current_schema())::regnamespace
    LIMIT 1;
    IF elsewhere IS NOT NULL THEN
        RAISE EXCEPTION 'tables ` + p.Plain("") + `… are in schema %, and new ones in % would hide them',
            elsewhere, quote_ident(current_schema())
            USING HINT = 'Let the search path begin with their schema, or name the schema in Options.Prefix.';
    END IF;
END $$;

`
}

// LZ4 returns a statement that compresses columns. where selects them, as rows of pg_attribute, and alter are the
// statements that compress them.
func LZ4(where string, alter ...string) string {
	return `
-- Without lz4, and before PostgreSQL 14, the default compression serves.
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_settings WHERE name = 'default_toast_compression' AND 'lz4' = ANY (enumvals)) THEN
        IF EXISTS (SELECT FROM pg_attribute
            WHERE ` + where + ` AND attcompression <> 'l') THEN
            EXECUTE '` + strings.Join(alter, "';\n            EXECUTE '") + `';
        END IF; -- else the table would be locked for nothing
    END IF;
END $$;
`
}

var createIndex = regexp.MustCompile(`(?m)^CREATE (UNIQUE )?INDEX IF NOT EXISTS (\S+) ON (\S+) ([^;]*);`)

// Unlocked returns a schema in which each index is looked for before it is created. CREATE INDEX IF NOT EXISTS locks
// its table before it looks. It would wait for a vacuum to end, and all writers of the table would wait behind it.
func Unlocked(schema string) string {
	return createIndex.ReplaceAllString(schema, `DO $$$$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = '${3}'::regclass AND format('"%s"', relname) = '${2}') THEN
        CREATE ${1}INDEX IF NOT EXISTS ${2} ON ${3} ${4};
    END IF;
END $$$$;`)
}

// Placeholders returns each function without its number as a placeholder, and the name that replaces it.
func Placeholders(p sqlname.Prefix, functions []string) (pairs []string) {
	for _, f := range functions {
		pairs = append(pairs, "{"+f[:strings.LastIndexByte(f, '_')]+"}", p.Table(f))
	}
	return pairs
}

// FunctionNames returns the quoted names of the functions that the store calls.
func (d *DB) FunctionNames() (names []string) {
	for _, f := range d.names.Functions {
		names = append(names, d.Prefix.Table(f))
	}
	return names
}

var createFunction = regexp.MustCompile(`(?ms)^CREATE FUNCTION ([^\s(]+)\(.*?^END \$\$;`)

// Once returns functions, each of which is looked for before it is created. CREATE OR REPLACE would fail if two
// processes ran it at once. The name of a function stands for its body, so there is nothing to replace.
func Once(functions string) string {
	return createFunction.ReplaceAllString(functions, `DO $$create$$ BEGIN
IF to_regproc('${1}') IS NULL THEN
${0}
END IF;
END $$create$$;`)
}
