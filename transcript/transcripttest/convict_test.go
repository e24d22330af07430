package transcripttest_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/suite"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

func TestMemory(t *testing.T) {
	transcripttest.Run(t, func(*testing.T) transcript.Store { return new(transcript.Memory) })
}

// flaws are the flaws of a store, and the clause that each of them breaks.
var flaws = map[string]string{
	"numbers begin at 0": "append",
	"numbers have gaps":  "append",

	"a repeat appends again": "append-again",
	"a repeat is an error":   "append-again",

	"a repeat with other messages is an error":            "append-other",
	"a repeat returns as many numbers as it has messages": "append-other",
	"the last one stays":                                  "append-other",

	"ids are compared without case": "append-ids",
	"ids are trimmed":               "append-ids",

	"numbers are counted":        "append-once",
	"trimmed ids are remembered": "append-once",

	"sessions are compared without case": "sessions-apart",
	"sessions are trimmed":               "sessions-apart",
	"ids are those of all sessions":      "sessions-apart",
	"names are joined":                   "orchestrators-apart",
	"orchestrators are one":              "orchestrators-apart",

	"spans are sorted":                      "read",
	"a message is read once":                "read",
	"entries are read whole":                "read",
	"an entry is found by its first number": "read",
	"no span is all":                        "read",

	"what is missing is left out":             "read-missing",
	"what is missing is any error":            "read-missing",
	"Read ends at what is damaged or missing": "read-missing",

	"there is one page":          "read-many",
	"there are two pages":        "read-many",
	"a page leaves an entry out": "read-many",

	"Read holds the lock":                 "loop",
	"pages are by offset":                 "loop-meanwhile",
	"Read that ends early holds the lock": "loop-ends",
	"Read reads once":                     "loop-twice",

	"a copy has new numbers": "copy",
	"a copy moves":           "copy",

	"an entry in part is not named": "copy-part",
	"a copy of a part is a part":    "copy-part",

	"a repeated copy is refused": "copy-again",
	"a copy takes ids away":      "copy-again",

	"a copy leaves what is there":   "copy-taken",
	"a copy replaces":               "copy-taken",
	"a copy compares numbers":       "copy-taken",
	"a copy compares first numbers": "copy-taken",
	"a copy stops in the middle":    "copy-taken",

	"a copy of nothing is an error": "copy-missing",

	"a copy does not move the next number": "copy-then-append",

	"a copy keeps ids":    "copy-ids",
	"a copy keeps times":  "copy-time",
	"a copy has one page": "copy-many",

	"Trim counts entries":              "trim",
	"Trim names the first span only":   "trim",
	"Trim knows no time":               "trim-before",
	"the newest is trimmed":            "trim-newest",
	"the newest is the last that came": "trim-newest",
	"no spans are nil":                 "trim-all",
	"numbers go on":                    "trim-all",
	"no time is all times":             "trim-no-time",
	"times begin in 1970":              "trim-no-time",
	"times are microseconds":           "trim-no-time",
	"Trim deletes one page":            "trim-many",

	"documents are normalized":               "values",
	"times are in UTC":                       "values",
	"times are microseconds of the database": "values",
	"unknown kinds are an error":             "values-kind",
	"unknown kinds are left out":             "values-kind",
	"names are cut":                          "values-names",
	"large texts are cut":                    "values-large",
	"many messages are cut":                  "values-most",
	"messages are shared":                    "values-aliased",

	"nothing is checked":   "refused",
	"spans are few":        "refused-not",
	"numbers have 32 bits": "refused-not",
	"ctx is not looked at": "cancelled",

	"a number is read, then written":      "race",
	"an id is looked up, then written":    "race-same",
	"a copy looks, then writes":           "race-copy",
	"a copy writes back what it has read": "race-copy-append",
	"Trim writes back what it has read":   "race-trim",
	"Append writes back what it has read": "race-trim-all",
}

// Each flaw must be caught by the clause that it breaks.
func TestSuiteConvicts(t *testing.T) {
	trial := suite.Trial[transcript.Store]{
		Violations: transcripttest.Violations, Tries: 20, Blocking: []string{"loop", "loop-ends"},
	}
	for flaw, clause := range flaws {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, clause, func() transcript.Store { return newFlawed(flaw) })
		})
	}
	for flaw, clause := range map[string]string{
		"an entry in part is not named": "trim-part",
		"ctx is not looked at":          "cancelled-loop",
		"documents are normalized":      "values-kind",
		"a copy looks, then writes":     "race-copy-append",

		"a copy writes back what it has read": "race-copy-others",
	} {
		t.Run(flaw+", "+clause, func(t *testing.T) {
			t.Parallel()
			trial.Convict(t, clause, func() transcript.Store { return newFlawed(flaw) })
		})
	}
}

// Without a flaw the store keeps the contract: what convicts a flawed store is its flaw.
func TestFlawless(t *testing.T) {
	transcripttest.Run(t, func(*testing.T) transcript.Store { return newFlawed("") })
}

// Each clause convicts some store.
func TestEachClauseConvicts(t *testing.T) {
	convicting := slices.Concat(slices.Collect(maps.Values(flaws)), []string{
		"trim-part", "cancelled-loop", "race-copy-others",
	})
	for _, name := range transcripttest.Names() {
		if !slices.Contains(convicting, name) {
			t.Errorf("no store breaks clause %s", name)
		}
	}
}
