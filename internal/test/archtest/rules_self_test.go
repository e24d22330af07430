package archtest

import (
	"slices"
	"strings"
	"testing"
)

// sound is a graph without a fault.
func sound() graph {
	return graph{
		"lock":                      {"context", module + "/internal/jsonvalue"},
		"lock/redislocker":          {module + "/lock", "github.com/bsm/redislock", "github.com/redis/go-redis/v9"},
		"checkpoint":                {"context", module + "/lock", module + "/internal/jsonvalue"},
		"checkpoint/checkpointtest": {"testing", module + "/checkpoint", module + "/lock"},
		"checkpoint/pgcheckpoint": {
			"fmt", module + "/checkpoint", "github.com/jackc/pgx/v5",
			module + "/internal/sqlname",
		},
		"checkpoint/redischeckpoint": {module + "/checkpoint", "github.com/redis/go-redis/v9"},
		"snapshot/sqlitesnapshot":    {"database/sql", module + "/snapshot"},
		"ledger/sqliteledger":        {"database/sql", module + "/ledger"},
		"turnlog/sqliteturnlog":      {"database/sql", module + "/turnlog"},
		"stream/redisstream":         {module + "/stream", module + "/internal/tail", "github.com/redis/go-redis/v9"},
		"internal/tail":              {module + "/stream"},
		"inbox/sqliteinbox":          {"database/sql", module + "/inbox"},
		"orchestrator":               {module + "/checkpoint", module + "/retry", otel, otel + "/trace"},
		"oncehttp":                   {"net/http", module + "/orchestrator", module + "/ledger"},
		"bootdrain":                  {"context", "log/slog", module + "/internal/logtext"},
		"turnhttp":                   {"net/http", module + "/orchestrator", module + "/inbox", module + "/bootdrain"},
		"migrations":                 {"github.com/pressly/goose/v3"},
		"examples/refundbot":         {module + "/orchestrator", module + "/lock/redislocker", "golang.org/x/sync"},
		"internal/jsonvalue":         {"encoding/json"},
		"internal/sqlname":           {"regexp"},
		"internal/test/testenv":      {"testing", "github.com/jackc/pgx/v5"},
	}
}

func TestCheckAcquits(t *testing.T) {
	if wrong := check(sound()); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

func TestCheckConvicts(t *testing.T) {
	for _, tt := range []struct{ pkg, imports string }{
		{"lock", "github.com/google/uuid"},
		{"lock", module + "/checkpoint"},
		{"checkpoint", module + "/snapshot"},
		{"checkpoint", module + "/checkpoint/pgcheckpoint"},
		{"checkpoint", "testing"},
		{"message", "github.com/jackc/pgx/v5"},
		{"retry", module + "/orchestrator"},
		{"checkpoint/checkpointtest", "github.com/stretchr/testify/assert"},
		{"checkpoint/checkpointtest", module + "/snapshot"},
		{"checkpoint/pgcheckpoint", module + "/migrations"},
		{"checkpoint/pgcheckpoint", module + "/checkpoint/redischeckpoint"},
		{"checkpoint/pgcheckpoint", "github.com/redis/go-redis/v9"},
		{"checkpoint/redischeckpoint", "github.com/bsm/redislock"},
		{"checkpoint/redischeckpoint", module + "/internal/test/testenv"},
		{"snapshot/sqlitesnapshot", "modernc.org/sqlite"},
		{"snapshot/sqlitesnapshot", module + "/checkpoint/redischeckpoint"},
		{"checkpoint/sqlitecheckpoint", module + "/snapshot"},
		{"ledger/sqliteledger", module + "/checkpoint"},
		{"ledger/sqliteledger", "modernc.org/sqlite"},
		{"turnlog", module + "/ledger"},
		{"turnlog/pgturnlog", module + "/turnlog/sqliteturnlog"},
		{"stream/pgstream", module + "/stream/redisstream"},
		{"stream/redisstream", module + "/checkpoint"},
		{"inbox/pginbox", module + "/inbox/sqliteinbox"},
		{"inbox/redisinbox", module + "/snapshot"},
		{"orchestrator", otel + "/sdk/trace"},
		{"orchestrator", module + "/bootdrain"},
		{"orchestrator", module + "/checkpoint/pgcheckpoint"},
		{"oncehttp", "github.com/openai/openai-go/v3/option"},
		{"oncehttp", module + "/orchestrator/orchestratortest"},
		{"oncehttp", module + "/ledger/pgledger"},
		{"bootdrain", module + "/lock"},
		{"bootdrain", module + "/internal/jsonvalue"},
		{"turnhttp", "github.com/jackc/pgx/v5"},
		{"turnhttp", module + "/inbox/pginbox"},
		{"turnhttp", module + "/migrations"},
		{"turnhttp", "github.com/google/uuid"},
		{"migrations", module + "/checkpoint"},
		{"examples/refundbot", module + "/internal/test/testenv"},
		{"examples/refundbot", module + "/orchestrator/orchestratortest"},
		{"orchestrator/orchestratortest", "testing"},
		{"orchestrator/orchestratortest", "github.com/google/uuid"},
		{"orchestrator/orchestratortest", module + "/internal/test/testenv"},
	} {
		g := sound()
		g[tt.pkg] = append(g[tt.pkg], tt.imports)
		want := tt.pkg + " must not import " + tt.imports + " "
		if wrong := check(g); !slices.ContainsFunc(wrong, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("%s importing %s: %q", tt.pkg, tt.imports, wrong)
		}
	}
}

// A package also imports the imports of its helpers.
func TestCheckFollowsHelpers(t *testing.T) {
	g := sound()
	g["internal/jsonvalue"] = []string{"github.com/jackc/pgx/v5"}
	want := "checkpoint/redischeckpoint must not import github.com/jackc/pgx/v5 (internal/jsonvalue does)"
	if wrong := check(g); !slices.ContainsFunc(wrong, func(s string) bool { return strings.HasPrefix(s, want) }) {
		t.Errorf("%q", wrong)
	}
}

func TestCheckWantsRules(t *testing.T) {
	g := sound()
	g["util"] = nil
	if wrong := check(g); !slices.Equal(wrong, []string{"util has no rule"}) {
		t.Errorf("%q", wrong)
	}
}

func TestLinksConvicts(t *testing.T) {
	deps := []string{"fmt", "github.com/redis/go-redis/v9", "github.com/jackc/pgx/v5"}
	for pkg, want := range map[string]int{
		"checkpoint":                 2,
		"checkpoint/redischeckpoint": 1,
		"checkpoint/pgcheckpoint":    1,
		"examples/refundbot":         0,
		"internal/test/bench":        0,
	} {
		if got := links(pkg, deps); len(got) != want {
			t.Errorf("%s: %v, want %d", pkg, got, want)
		}
	}
}

func TestHomePath(t *testing.T) {
	for text, want := range map[string]bool{
		"see /" + "work/main/x":         true,
		"\"/" + "home/ann\"":            true,
		"https://example.com/work/x":    false,
		"internal/work/x, ./home/x":     false,
		"work in /workers or /homes/ab": false,
	} {
		if got := homePath.MatchString(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
