package snapshot_test

import (
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/postgres/pgsnapshot"
	"github.com/holdfast-go/holdfast/internal/test/testenv"
)

// The heaviest documents that the stores take cost PostgreSQL less than 300 MiB each. Without the bound, 16 MiB of {}
// cost 3.6 GiB. With HOLDFAST_SOAK=1 more documents are tried.
func TestMemory(t *testing.T) {
	const most = 300 // MiB
	url := testenv.PostgresURL(t)
	units := map[string]string{
		"objects":               `{}`,
		"names that come again": `{` + strings.Repeat(`"":1,`, 32) + `"":1}`,
	}
	more := map[string]string{
		"arrays of objects":  `[` + strings.Repeat(`{},`, 128) + `{}]`,
		"arrays of numbers":  `[` + strings.Repeat(`1,`, 128) + `1]`,
		"objects of five":    `{"a":1,"b":1,"c":1,"d":1,"e":1}`,
		"objects in objects": strings.Repeat(`{"":`, 900) + `1` + strings.Repeat(`}`, 900),
		"one after another":  `{"":{"":[]}}`,
		"prose":              `"` + strings.Repeat("the quick brown fox ", 1000) + `"`,
	}
	if os.Getenv("HOLDFAST_SOAK") == "1" {
		maps.Copy(units, more)
	}
	for name, unit := range units {
		t.Run(name, func(t *testing.T) {
			doc := heaviest(unit)
			conn, err := pgx.Connect(t.Context(), url)
			check(t, err)
			defer conn.Close(t.Context())
			pid := conn.PgConn().PID()
			if peak(pid) == 0 {
				t.Skip("PostgreSQL is on another machine, or this is not Linux")
			}
			s := pgsnapshot.New(conn, nil)
			r := run(name)
			r.Payload = doc
			begin(t, s, r)
			check(t, take(t.Context(), s, name, 1))
			got := peak(pid)
			t.Logf("%d bytes cost %d MiB", len(doc), got)
			if got > most {
				t.Errorf("%d bytes cost %d MiB, want at most %d", len(doc), got, most)
			}
		})
	}
}

// heaviest returns the longest array of unit that a store takes.
func heaviest(unit string) []byte {
	array := func(n int) []byte { return []byte(`[` + strings.Repeat(unit+`,`, n-1) + unit + `]`) }
	n, above := 1, jsonvalue.MaxSize/len(unit)
	for n+1 < above {
		if middle := (n + above) / 2; jsonvalue.Check(array(middle)) == nil {
			n = middle
		} else {
			above = middle
		}
	}
	return array(n)
}

// peak returns the most MiB that a process of PostgreSQL has taken, or 0.
func peak(pid uint32) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil || !strings.HasPrefix(string(status), "Name:\tpostgres\n") {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kb, _ := strconv.Atoi(strings.Fields(after)[0])
	return kb >> 10
}
