package flow_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/flow"
)

// The next times of a schedule, as the clock of its zone shows them.
func TestTimes(t *testing.T) {
	for _, c := range []struct{ schedule, after, want string }{
		{"*/20 * * * *", "2026-01-01T00:50:30Z", "01-01 01:00Z, 01-01 01:20Z, 01-01 01:40Z"},
		{"  0   3 * *  * ", "2026-01-01T03:00:00Z", "01-02 03:00Z, 01-03 03:00Z"},
		{"0 3 * * *", "2026-01-01T02:59:59.999Z", "01-01 03:00Z, 01-02 03:00Z"},
		{"@daily", "2026-01-01T04:00:00+05:00", "01-01 00:00Z, 01-02 00:00Z"},
		{"@hourly", "2026-12-31T23:00:00Z", "01-01 00:00Z, 01-01 01:00Z"},
		{"@weekly", "2026-01-01T00:00:00Z", "01-04 00:00Z, 01-11 00:00Z"},
		{"@monthly", "2026-01-01T00:00:00Z", "02-01 00:00Z, 03-01 00:00Z"},
		{"@yearly", "2026-01-01T00:00:00Z", "01-01 00:00Z"},
		{"0 0 31 * *", "2026-01-31T00:00:00Z", "03-31 00:00Z, 05-31 00:00Z, 07-31 00:00Z"},
		{"0 0 29 2 *", "2096-03-01T00:00:00Z", "02-29 00:00Z, 02-29 00:00Z"}, // 2100 has none
		{"0 0 13 * FRI", "2026-01-03T00:00:00Z", "01-09 00:00Z, 01-13 00:00Z, 01-16 00:00Z"},
		{"0 0 * * 7", "2026-01-01T00:00:00Z", "01-04 00:00Z, 01-11 00:00Z"},
		{"0 22-1/2 * * *", "2026-01-01T00:00:00Z", "01-01 22:00Z, 01-02 00:00Z"},
		{"@every 90s", "2026-01-01T00:00:01Z", "01-01 00:01:30Z, 01-01 00:03Z, 01-01 00:04:30Z"},
		{"@every 1m30s", "2026-01-01T00:01:30Z", "01-01 00:03Z, 01-01 00:04:30Z"},
		{"@every 1s", "1969-12-31T23:59:58.5Z", "12-31 23:59:59Z, 01-01 00:00Z, 01-01 00:00:01Z"},
		{"@every 24h", "2026-01-01T12:00:00+02:00", "01-02 00:00Z, 01-03 00:00Z"},

		// The clock leaves an hour out. What is of one time comes at the end of the gap; what comes each hour does not.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T12:00:00Z", "03-29 03:00+02, 03-30 02:30+02"},
		{"CRON_TZ=Europe/Berlin 0,30 2,3 * * *", "2026-03-28T12:00:00Z", "03-29 03:00+02, 03-29 03:30+02, 03-30 02:00+02"},
		{"CRON_TZ=Europe/Berlin 30 * * * *", "2026-03-29T00:00:00Z", "03-29 01:30+01, 03-29 03:30+02"},
		{"CRON_TZ=America/Santiago 0 0 * * *", "2026-09-05T12:00:00Z", "09-06 01:00-03, 09-07 00:00-03"},
		{"CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T00:00:00Z", "10-04 02:30+11, 10-05 02:15+11"},
		{"CRON_TZ=Australia/Lord_Howe */20 * * * *", "2026-10-03T15:09:00Z", "10-04 01:40+1030, 10-04 02:40+11"},

		// The clock shows an hour twice. What is of one time comes once; what comes each hour comes in both.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T12:00:00Z", "10-25 02:30+02, 10-26 02:30+01"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-25T01:10:00Z", "10-26 02:30+01"},
		{"CRON_TZ=Europe/Berlin 30 */1 * * *", "2026-10-24T23:40:00Z", "10-25 02:30+02, 10-25 02:30+01, 10-25 03:30+01"},
		{"CRON_TZ=Australia/Lord_Howe 45 1 * * *", "2026-04-04T00:00:00Z", "04-05 01:45+11, 04-06 01:45+1030"},
		{"CRON_TZ=America/New_York @daily", "2026-11-01T03:59:00Z", "11-01 00:00-04, 11-02 00:00-05"},
		{"CRON_TZ=Pacific/Apia 0 9 * * *", "2011-12-29T00:00:00Z", "12-29 09:00-10, 12-31 00:00+14, 12-31 09:00+14"},
	} {
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		all, err := flow.Times(c.schedule, after, strings.Count(c.want, ",")+1)
		for _, at := range all {
			text := at.Format("01-02 15:04:05Z0700")
			text = strings.Replace(strings.TrimSuffix(text, "00"), ":00Z", "Z", 1)
			got = append(got, strings.NewReplacer(":00+", "+", ":00-", "-").Replace(text))
		}
		if list := strings.Join(got, ", "); err != nil || list != c.want {
			t.Errorf("%q after %s: %s, %v, want %s", c.schedule, c.after, list, err, c.want)
		}
	}
}

// A schedule that is none, or that never comes, is refused by the preview and by On.
func TestBadSchedules(t *testing.T) {
	w := flow.New("w", 1, func(*flow.Run, int) (int, error) { return 0, nil })
	in := func(time.Time) int { return 0 }
	for _, schedule := range []string{
		"", "* * * *", "* * * * * *", "0 0 30 2 *", "0 0 31 4,6,9,11 *", "60 * * * *", "* 24 * * *", "* * 0 * *",
		"* * 32 * *", "* * * 13 *", "* * * * 8", "*-5 * * * *", "1,,2 * * * *", "-1 * * * *", "1- * * * *", "a * * * *",
		"*/0 * * * *", "*/60 * * * *", "H * * * *", "? * * * *", "0 0 L * *", "@reboot", "@every", "@every 0s",
		"@every -1m", "@every 1ms", "@every 1500ms", "@every 9000h", "@every soon", "CRON_TZ=Mars/Base 0 0 * * *",
		"CRON_TZ=Local 0 0 * * *", "CRON_TZ= 0 0 * * *", "CRON_TZ=../etc 0 0 * * *", "TZ=0", "CRON_TZ=UTC",
		"CRON_TZ=UTC @every 5m", "0 0 * * MO", "0 0 1 1 *" + strings.Repeat(",1", 200), "каждый день",
	} {
		if _, err := flow.Times(schedule, time.Now(), 1); !errors.Is(err, workflow.ErrInvalid) {
			t.Errorf("%q: %v", schedule, err)
		}
		panics(t, schedule, func() { w.On(schedule, in, false) })
	}
	panics(t, "no input", func() { w.On("@daily", nil, false) })
	for _, n := range []int{-1, workflow.MaxBatch + 1} {
		if _, err := flow.Times("@daily", time.Now(), n); !errors.Is(err, workflow.ErrInvalid) {
			t.Errorf("%d times: %v", n, err)
		}
	}
}

func panics(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s does not panic", what)
		}
	}()
	f()
}
