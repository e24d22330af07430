package turnlog_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/turnlog"
	"github.com/holdfast-go/holdfast/turnlog/turnlogtest"
)

// A log behind New passes too, and stays a Lister.
func TestChecked(t *testing.T) {
	turnlogtest.Run(t, func(*testing.T) turnlog.Log {
		return turnlog.New(new(turnlog.Memory), turnlogtest.Registry())
	})
}

// A turn that is exactly as old as asked for is selected.
func TestMemoryOlderThan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(turnlog.Memory)
		e := phase("r1", turnlog.Started, 0, "{}")
		e.At = time.Now().UTC().Truncate(time.Millisecond)
		if err := log.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Until(e.At.Add(time.Hour)))
		for age, want := range map[time.Duration]int{time.Hour: 1, time.Hour + 1: 0} {
			n := 0
			for _, err := range log.Turns(t.Context(), turnlog.Query{OlderThan: age}) {
				if n++; err != nil {
					t.Error(err)
				}
			}
			if n != want {
				t.Errorf("%d turns are %v old, want %d", n, age, want)
			}
		}
	})
}

// A Memory takes at most twice the bytes of what it keeps.
func TestMemorySize(t *testing.T) {
	const records, phasesOfRun, size = 100_000, 5, 200
	before := inUse()
	log := new(turnlog.Memory)
	bytes := 0
	for i := range records {
		e := phase(fmt.Sprintf("%016d", i/phasesOfRun), turnlog.ToolReceived, int64(i%phasesOfRun), "")
		names := len(e.Run) + len(e.Session) + len(e.Orchestrator) + len(e.Phase) + len(turnlog.TimeFormat)
		e.State = []byte(`"` + strings.Repeat("x", size-names-len(`""`)) + `"`)
		if err := log.Record(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		bytes += names + len(e.State)
	}
	used := inUse() - before
	ratio := float64(used) / float64(bytes)
	if t.Logf("%d records of %d bytes take %.2f times their bytes", records, size, ratio); ratio > 2 {
		t.Error("more than twice their bytes")
	}
	runtime.KeepAlive(log)
}

// inUse returns how many bytes of the heap are in use.
func inUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
