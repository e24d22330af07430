package archtest

import (
	"slices"
	"strings"
	"testing"
)

// sound is a graph without a fault.
func sound() graph {
	return graph{
		"store":                      {"context", module + "/internal/ids"},
		"lock":                       {"context", module + "/store"},
		"internal/redis/redislocker": {module + "/lock", "github.com/bsm/redislock", "github.com/redis/go-redis/v9"},
		"checkpoint":                 {"context", module + "/lock", module + "/internal/jsonvalue"},
		"checkpoint/checkpointtest":  {"testing", module + "/checkpoint", module + "/lock"},
		"internal/postgres/pgcheckpoint": {
			"fmt", module + "/checkpoint", "github.com/jackc/pgx/v5",
			module + "/internal/sqlname",
		},
		"internal/redis/redischeckpoint": {module + "/checkpoint", "github.com/redis/go-redis/v9"},
		"internal/sqlite/sqlitesnapshot": {"database/sql", module + "/snapshot"},
		"internal/sqlite/sqliteledger":   {"database/sql", module + "/ledger"},
		"internal/sqlite/sqliteturnlog":  {"database/sql", module + "/turnlog"},
		"internal/redis/redisstream":     {module + "/stream", module + "/internal/tail", "github.com/redis/go-redis/v9"},
		"internal/tail":                  {module + "/stream"},
		"internal/sqlite/sqliteinbox":    {"database/sql", module + "/inbox"},
		"orchestrator":                   {module + "/checkpoint", module + "/retry", otel, otel + "/trace"},
		"oncehttp":                       {"net/http", module + "/orchestrator", module + "/ledger"},
		"bootdrain":                      {"context", "log/slog", module + "/internal/logtext"},
		"serve":                          {"net/http", module + "/bootdrain", module + "/internal/owner"},
		"approval":                       {"context", module + "/orchestrator", module + "/inbox"},
		"turnhttp":                       {"net/http", module + "/orchestrator", module + "/inbox", module + "/approval"},
		"turnhttp/agui":                  {"net/http", module + "/turnhttp"},
		"workflow/flow":                  {"context", module + "/workflow", module + "/retry"},
		"workflow/workflowhttp":          {"net/http", module + "/workflow", module + "/internal/jsonvalue"},
		"models/scripted":                {"regexp", module + "/agent"},
		"models/anthropic":               {module + "/agent", "github.com/anthropics/anthropic-sdk-go/v2/option"},
		"migrations":                     {"github.com/pressly/goose/v3"},
		"examples/refundbot":             {module + "/orchestrator", module + "/internal/redis/redislocker", "golang.org/x/sync"},
		"internal/ids":                   {"strings"},
		"internal/owner":                 {module + "/lock", module + "/internal/pulse"},
		"internal/pulse":                 {module + "/lock"},
		"internal/postgres/pgprocess":    {module + "/lock", "github.com/jackc/pgx/v5"},
		"internal/sqlite/sqliteprocess":  {module + "/lock"},
		"internal/redis/redisprocess":    {module + "/lock", "github.com/redis/go-redis/v9"},
		"internal/jsonvalue":             {"encoding/json"},
		"internal/sqlname":               {"regexp"},
		"internal/test/testenv":          {"testing", "github.com/jackc/pgx/v5"},
	}
}

func TestCheckAcquits(t *testing.T) {
	if wrong := check(sound()); len(wrong) > 0 {
		t.Errorf("%q", wrong)
	}
}

func TestCheckConvicts(t *testing.T) {
	for _, tt := range []struct{ pkg, imports string }{
		{"store", module + "/lock"},
		{"lock", "github.com/google/uuid"},
		{"lock", module + "/checkpoint"},
		{"checkpoint", module + "/snapshot"},
		{"checkpoint", module + "/internal/postgres/pgcheckpoint"},
		{"checkpoint", "testing"},
		{"message", "github.com/jackc/pgx/v5"},
		{"retry", module + "/orchestrator"},
		{"checkpoint/checkpointtest", "github.com/stretchr/testify/assert"},
		{"checkpoint/checkpointtest", module + "/snapshot"},
		{"internal/owner", module + "/checkpoint"},
		{"internal/owner", module + "/snapshot"},
		{"internal/owner", module + "/ledger"},
		{"internal/pulse", module + "/checkpoint"},
		{"internal/postgres/pgprocess", module + "/checkpoint"},
		{"internal/sqlite/sqliteprocess", module + "/checkpoint"},
		{"internal/redis/redisprocess", module + "/checkpoint"},
		{"internal/postgres/pgcheckpoint", module + "/migrations"},
		{"internal/postgres/pgcheckpoint", module + "/internal/redis/redischeckpoint"},
		{"internal/postgres/pgcheckpoint", "github.com/redis/go-redis/v9"},
		{"internal/redis/redischeckpoint", "github.com/bsm/redislock"},
		{"internal/redis/redischeckpoint", module + "/internal/test/testenv"},
		{"internal/sqlite/sqlitesnapshot", "modernc.org/sqlite"},
		{"internal/sqlite/sqlitesnapshot", module + "/internal/redis/redischeckpoint"},
		{"internal/sqlite/sqlitecheckpoint", module + "/snapshot"},
		{"internal/sqlite/sqliteledger", module + "/checkpoint"},
		{"internal/sqlite/sqliteledger", "modernc.org/sqlite"},
		{"turnlog", module + "/ledger"},
		{"internal/postgres/pgturnlog", module + "/internal/sqlite/sqliteturnlog"},
		{"internal/postgres/pgstream", module + "/internal/redis/redisstream"},
		{"internal/redis/redisstream", module + "/checkpoint"},
		{"internal/postgres/pginbox", module + "/internal/sqlite/sqliteinbox"},
		{"internal/redis/redisinbox", module + "/snapshot"},
		{"orchestrator", otel + "/sdk/trace"},
		{"orchestrator", module + "/bootdrain"},
		{"orchestrator", module + "/internal/postgres/pgcheckpoint"},
		{"oncehttp", "github.com/openai/openai-go/v3/option"},
		{"oncehttp", module + "/orchestrator/orchestratortest"},
		{"oncehttp", module + "/internal/postgres/pgledger"},
		{"bootdrain", module + "/lock"},
		{"bootdrain", module + "/internal/jsonvalue"},
		{"serve", module + "/orchestrator"},
		{"serve", module + "/turnhttp"},
		{"approval", module + "/turnhttp"},
		{"turnhttp", module + "/bootdrain"},
		{"turnhttp", module + "/turnhttp/agui"},
		{"turnhttp/agui", module + "/turnhttp/uichat"},
		{"turnhttp", "github.com/jackc/pgx/v5"},
		{"turnhttp", module + "/internal/postgres/pginbox"},
		{"turnhttp", module + "/migrations"},
		{"turnhttp", "github.com/google/uuid"},
		{"workflow/workflowhttp", module + "/workflow/flow"},
		{"workflow/workflowhttp", module + "/orchestrator"},
		{"workflow/workflowhttp", module + "/retry"},
		{"models/scripted", "github.com/openai/openai-go/v3"},
		{"migrations", module + "/checkpoint"},
		{"examples/refundbot", module + "/internal/test/testenv"},
		{"models/anthropic", "github.com/openai/openai-go/v3/option"},
		{"models/openai/responses", "github.com/openai/openai-go/v3"}, // it is large
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
	want := "internal/redis/redischeckpoint must not import github.com/jackc/pgx/v5 (internal/jsonvalue does)"
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
		"checkpoint":                     2,
		"internal/redis/redischeckpoint": 1,
		"internal/postgres/pgcheckpoint": 1,
		"examples/refundbot":             0,
		"internal/test/bench":            0,
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
