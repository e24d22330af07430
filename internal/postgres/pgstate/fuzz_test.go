package pgstate_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// Package jsonvalue says the same of a document as PostgreSQL. What PostgreSQL gives back can be stored again, and does
// not count more.
func FuzzVerdict(f *testing.F) {
	pool := testenv.Postgres(f)
	for _, doc := range []string{
		`{"a":[1,2.50,-0,1e3,1E-3,0.10e1],"b":{"":null,"":true},"c":"\u00e9\/\ud83d\ude00\u007f"}`, ` [ ] `, `-0.0`, `0e5`,
		`"\u0000"`, `"\ud800"`, `"\udc00\ud800"`, "\"\x00\"", "\"\xff\"", "\"\xed\xa0\x80\"", "\"\t\"", "\"\x7f\"", `"\v"`,
		`01`, `1.`, `.5`, `+1`, `1e`, `1e131071`, `1e131072`, `1e-16383`, `1e-16384`, `0e99999`, `NaN`, `Infinity`,
		`[1,]`, `{"a"}`, `{"a":1,}`, `{a:1}`, `'a'`, `// 1`, "\ufeff1", "\v1", "\u00a01", `tru`, `truefalse`, `1 2`, ``,
		`[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]`, `"\u000g"`, `"\ud83d\u0041"`, `"\uD83D\uDE00"`, `123456789012345678901234567890`,
	} {
		f.Add([]byte(doc))
	}
	// Beyond these, jsonvalue is stricter: it does not compute what a large exponent does to a zero.
	const most = 2000 // bytes, so that no document is too deep
	large := regexp.MustCompile(`[eE][+-]?[0-9]{5}`)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) > most {
			t.Skip("too long")
		}
		refusal := jsonvalue.Check(doc)
		var back string
		err := pool.QueryRow(t.Context(), "SELECT $1::text::jsonb::text", string(doc)).Scan(&back)
		if _, said := errors.AsType[*pgconn.PgError](err); err != nil && !said {
			t.Fatal(err)
		}
		switch {
		case refusal == nil && err != nil:
			t.Errorf("PostgreSQL refuses %q: %v", doc, err)
		case refusal != nil && err == nil && !large.Match(doc):
			t.Errorf("PostgreSQL takes %q, and we refuse it: %v", doc, refusal)
		case refusal == nil:
			checkReturned(t, doc, []byte(back))
		}
	})
}

// checkReturned compares a document with the form in which PostgreSQL returns it.
func checkReturned(t *testing.T, doc, back []byte) {
	t.Helper()
	if err := jsonvalue.Check(back); err != nil {
		t.Fatalf("%q became %q: %v", doc, back, err)
	}
	before, err := jsonvalue.Size(doc)
	if err != nil {
		t.Fatal(err)
	}
	after, err := jsonvalue.Size(back)
	if err != nil {
		t.Fatal(err)
	}
	if after > before {
		t.Errorf("%q counts %d bytes, and %d as %q", doc, before, after, back)
	}
}
