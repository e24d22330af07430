package lock

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/store"
)

// Silence is after how long a Beater may forget a process that does not beat.
const Silence = time.Hour

// A Beater is a store in which processes show that they are alive. A process that owns something in a database beats
// there about once a second, whatever it owns. If its beats stand still for some seconds, the process has probably
// stopped, and others claim what it owns before its leases expire. Beats are for economy only. They need not survive a
// crash of the server, and if a process stops without having died, the fence keeps it from doing harm.
type Beater interface {
	// Beat counts a beat of process, and returns the number of beats of each process that beats, as of after this one.
	// If process is "", Beat only looks. A process that has been silent for an hour may be missing.
	Beat(ctx context.Context, process string) (beats map[string]int64, err error)

	// Rest says that process owns nothing any more. Its beats are forgotten until it beats again, from another number
	// on: who looks now and then must not take two lives for one that stands still. Rest may be repeated.
	Rest(ctx context.Context, process string) error
}

// A Watcher is a store that keeps which process is the watcher. The watcher looks, for all other processes, for runs to
// recover. All stores on one server keep the same watcher. A Watcher is for economy only: what it keeps need not
// survive a crash of the server, and each session is claimed before it is recovered.
type Watcher interface {
	// Watch makes process the watcher for d from now, unless another process is the watcher. It returns for how much
	// longer another process is the watcher. It returns 0 if process is the watcher. The watcher may ask again at any
	// time. If d is 0, process stops being the watcher. Each definition has a watcher of its own, because not all
	// processes can recover the same runs.
	Watch(
		ctx context.Context, orchestrator, definition, process string, d time.Duration,
	) (other time.Duration, err error)
}

// The functions below are for authors of a store. Each refuses, with store.ErrInvalid, arguments that no backend takes.

// ValidateBeat checks the arguments of Beat.
func ValidateBeat(process string) error { return invalid(ids.CheckOptional("process", process)) }

// ValidateRest checks the arguments of Rest.
func ValidateRest(process string) error { return invalid(ids.Check("process", process)) }

// longestWatch is longer than any sensible watch, and short enough that no clock arithmetic overflows.
const longestWatch = 366 * 24 * time.Hour

// ValidateWatch checks the arguments of Watch.
func ValidateWatch(orchestrator, definition, process string, d time.Duration) error {
	if d < 0 || d > longestWatch {
		return fmt.Errorf("%w: watch of %v", store.ErrInvalid, d)
	}
	return invalid(cmp.Or(
		ids.Check("orchestrator", orchestrator), ids.Check("definition", definition), ids.Check("process", process)))
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrInvalid, err)
}
