package flow

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	cron "github.com/netresearch/go-cron"

	"github.com/holdfast-go/holdfast/workflow"
)

// A timetable has the times of a schedule.
type timetable interface {
	// next returns the first time after a time, or the zero time if there is none.
	next(after time.Time) time.Time
}

// maxSchedule is how many bytes a schedule has at most. It is a part of keys.
const maxSchedule = 256

// parseSchedule returns a schedule in one form, and its times.
func parseSchedule(schedule string) (text string, t timetable, err error) {
	text = strings.Join(strings.Fields(schedule), " ")
	if len(text) > maxSchedule {
		return "", nil, fmt.Errorf("%w: a schedule of %d bytes", workflow.ErrInvalid, len(text))
	}
	if pause, ok := strings.CutPrefix(text, "@every "); ok {
		t, err = parseEvery(pause)
	} else {
		t, err = parseCalendar(text)
	}
	if err == nil && t.next(time.Unix(0, 0)).IsZero() {
		err = errors.New("it never comes")
	}
	if err != nil {
		return "", nil, fmt.Errorf("%w: schedule %q: %w", workflow.ErrInvalid, text, err)
	}
	return text, t, nil
}

// An every is a schedule at the multiples of a duration since 1970, so that all processes agree.
type every time.Duration

func parseEvery(pause string) (every, error) {
	d, err := time.ParseDuration(pause)
	switch {
	case err != nil:
		return 0, err
	case d < time.Second || d > workflow.MaxDelay || d%time.Second != 0:
		return 0, fmt.Errorf("%v is not of whole seconds, from 1 s to %v", d, workflow.MaxDelay)
	}
	return every(d), nil
}

func (e every) next(after time.Time) time.Time {
	seconds := int64(time.Duration(e) / time.Second)
	at := after.Unix()
	return time.Unix(at-((at%seconds)+seconds)%seconds+seconds, 0).UTC()
}

// A calendar is the schedule of a cron expression in a zone.
type calendar struct {
	clock cron.Schedule // in UTC, of what a clock in the zone shows
	zone  *time.Location

	// passing is true if the hours are "*" or "*/n". Then the times are those that the clock shows, however often. Else
	// a time that the clock leaves out is at the end of the gap, and one that it shows twice counts once.
	passing bool
}

var (
	parser = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).
		WithMaxSearchYears(10) // from one February 29 to the next it may be 8

	// The parser takes "*-5" for "*".
	field = regexp.MustCompile(`^(\*|\w+(-\w+)?)(/\d+)?(,(\*|\w+(-\w+)?)(/\d+)?)*$`)

	aliases = map[string]string{
		"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
		"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
	}
)

func parseCalendar(text string) (c calendar, err error) {
	c.zone = time.UTC
	if zoned, ok := strings.CutPrefix(text, "CRON_TZ="); ok {
		name, rest, _ := strings.Cut(zoned, " ")
		if c.zone, err = time.LoadLocation(name); err != nil || name == "" || name == "Local" {
			return c, fmt.Errorf("there is no zone %q", name)
		}
		text = rest
	}
	if alias, ok := aliases[text]; ok {
		text = alias
	}
	fields := strings.Fields(text)
	if len(fields) != 5 || slices.ContainsFunc(fields, func(f string) bool { return !field.MatchString(f) }) {
		return c, errors.New("want minute, hour, day of the month, month and day of the week, or one of @every 90s, " +
			"@hourly, @daily, @weekly, @monthly and @yearly")
	}
	c.passing = strings.HasPrefix(fields[1], "*")
	c.clock, err = parser.Parse("CRON_TZ=UTC " + text)
	return c, err
}

func (c calendar) next(after time.Time) time.Time {
	if c.passing {
		return c.passed(after)
	}
	for shown := face(after.In(c.zone)); ; {
		if shown = c.clock.Next(shown); shown.IsZero() {
			return shown
		}
		if at := c.first(shown); at.After(after) {
			return at
		}
	}
}

// face returns what the clock of a zone shows, as a time in UTC.
func face(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// passed looks from one change of the clock to the next. Between them the clock goes on evenly.
func (c calendar) passed(after time.Time) time.Time {
	for from := after; ; {
		from = from.In(c.zone)
		_, offset := from.Zone()
		ahead := time.Duration(offset) * time.Second
		shown := c.clock.Next(after.UTC().Add(ahead))
		if shown.IsZero() {
			return shown
		}
		at := shown.Add(-ahead).In(c.zone)
		_, end := from.ZoneBounds()
		if end.IsZero() || at.Before(end) {
			return at
		}
		from, after = end, end.Add(-time.Second)
	}
}

// first returns when the clock first shows a time. If it leaves the time out, that is the end of the gap.
func (c calendar) first(shown time.Time) time.Time {
	_, before := shown.Add(-24 * time.Hour).In(c.zone).Zone()
	at := shown.Add(-time.Duration(before) * time.Second).In(c.zone)
	_, now := at.Zone()
	if now == before {
		return at
	}
	change, _ := at.ZoneBounds()
	if at = shown.Add(-time.Duration(now) * time.Second).In(c.zone); at.Before(change) {
		return change.In(c.zone)
	}
	return at
}

// Times returns the next n times of a schedule after a time, or as many as there are. It shows what On would do.
// An invalid schedule is workflow.ErrInvalid.
func Times(schedule string, after time.Time, n int) ([]time.Time, error) {
	_, t, err := parseSchedule(schedule)
	if err != nil {
		return nil, err
	}
	if n < 0 || n > workflow.MaxBatch {
		return nil, fmt.Errorf("%w: %d times of a schedule", workflow.ErrInvalid, n)
	}
	var all []time.Time
	for len(all) < n {
		if after = t.next(after); after.IsZero() {
			break
		}
		all = append(all, after)
	}
	return all, nil
}
