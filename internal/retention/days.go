package retention

import (
	"os"
	"strconv"
	"time"
)

// DaysVariable is the environment variable that says for how many days a workflow run may be kept at most.
const DaysVariable = "WORKFLOWS_MAX_RETENTION_DAYS"

const (
	defaultDays = 30
	mostDays    = 365
	foreverDays = 100_000 // a time.Duration holds no more
	day         = 24 * time.Hour
)

// MostDays returns for how many days a run may be kept at most, by the option of a store. 0 means what DaysVariable
// says, or a year, and a negative option means for ever.
func MostDays(option time.Duration) int {
	switch {
	case option < 0:
		return foreverDays
	case option > 0:
		return max(int(option/day), 1)
	}
	if n, err := strconv.Atoi(os.Getenv(DaysVariable)); err == nil && n > 0 {
		return min(n, foreverDays)
	}
	return mostDays
}

// Days returns for how many days a run is kept that asks for so many. 0 asks for the default.
func Days(asked, most int) int {
	if asked == 0 {
		asked = defaultDays
	}
	return min(asked, most)
}
