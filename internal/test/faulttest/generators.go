package faulttest

import (
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast/checkpoint"
)

// sessions is the number of sessions in a history.
const sessions = 3

// nasty are session ids that break a careless pattern, separator or collation.
var nasty = []string{"a_", "a%", "ab", "🙂", "{}", ":"}

// values are states and payloads.
var values = []string{
	`{"n": 1, "text": "né\n\"🙂\""}`, `null`, `0`, `"\u0001"`, `[1, {"a": null, "b": [true, false]}, []]`,
	`{"z": {}, "a": -1.5}`,
}

var sessionIDs = rapid.Custom(func(t *rapid.T) []string {
	return rapid.Permutation(nasty).Draw(t, "ids")[:sessions]
})

var (
	anySession = rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2})
	anyLease   = rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2})
	anyRequest = rapid.SampledFrom([]string{"", "", "q1", "q2", `q'%_"`})
	anyTurn    = rapid.SampledFrom([]int{checkpoint.Newest, 0, 1, 2, 3, 5, 8, -1})
	rarely     = rapid.SampledFrom([]bool{false, false, false, true})
)

// actions generates calls. Frequent calls are in its list several times.
func actions(sweeps bool) *rapid.Generator[action] {
	all := []*rapid.Generator[action]{
		claims, claims, claims, settles, settles, settles, settles, repeats, marks, marks, retries, retries, renews,
		renews,
		rapid.Just[action](expire{}),
		rapid.Custom(func(t *rapid.T) action {
			return remove{
				anySession.Draw(t, "session"),
				anyLease.Draw(t, "lease"),
			}
		}),
		rapid.Custom(func(t *rapid.T) action {
			return turns{anySession.Draw(t, "session"), anyTurn.Draw(t, "from"), rapid.IntRange(-1, 3).Draw(t, "count")}
		}),
		rapid.Custom(func(t *rapid.T) action { return load{anySession.Draw(t, "session"), anyTurn.Draw(t, "turn")} }),
		lists,
		rapid.Custom(func(t *rapid.T) action {
			return refuse{anySession.Draw(t, "session"), rapid.IntRange(0, 12).Draw(t, "call")}
		}),
	}
	if sweeps {
		all = append(all, rapid.Just[action](sweep{}))
	}
	return rapid.OneOf(all...)
}

var claims = rapid.Custom(func(t *rapid.T) action {
	return claim{
		Session: anySession.Draw(t, "session"),
		Again:   rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "again"),
		From:    rapid.SampledFrom([]int{0, 0, 0, 1, 1, 2}).Draw(t, "from"),
		Short:   rapid.Bool().Draw(t, "short"),
		Request: anyRequest.Draw(t, "request"),
		Born:    rarely.Draw(t, "born"),
	}
})

var settles = rapid.Custom(func(t *rapid.T) action {
	return settle{
		Session: anySession.Draw(t, "session"),
		Lease:   anyLease.Draw(t, "lease"),
		Ahead:   rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 1, -1}).Draw(t, "ahead"),
		Run:     rapid.SampledFrom([]int{0, 0, 0, 0, 0, 1, 2, 4}).Draw(t, "run"),
		Value:   rapid.IntRange(0, len(values)-1).Draw(t, "value"),
		Request: anyRequest.Draw(t, "request"),
		Opts: relabels(t, checkpoint.AppendOptions{
			Keep:    rapid.SampledFrom([]int{1, 2, 3, 4, 0, checkpoint.KeepAll}).Draw(t, "keep"),
			Owes:    rapid.Bool().Draw(t, "owes"),
			Release: rarely.Draw(t, "release"),
			Fresh:   rapid.Bool().Draw(t, "fresh"),
		}),
	}
})

// labels are the names of labels, and days their times from 1970 on. Day 0 is never.
var (
	labels  = []string{"wait", "w", "user:né%_\"🙂"}
	anyDays = rapid.IntRange(0, 2)
)

// relabels adds some of the labels, or none, or leaves them as they are.
func relabels(t *rapid.T, o checkpoint.AppendOptions) checkpoint.AppendOptions {
	o.Relabel = rapid.Bool().Draw(t, "relabel")
	for _, name := range labels {
		if o.Relabel && rapid.Bool().Draw(t, name) {
			o.Labels = append(o.Labels, checkpoint.Label{Name: name, At: day(anyDays.Draw(t, "due"))})
		}
	}
	return o
}

func day(n int) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(0).AddDate(0, 0, n)
}

var repeats = rapid.Custom(func(t *rapid.T) action {
	return repeat{anySession.Draw(t, "session"), anyLease.Draw(t, "settle")}
})

var marks = rapid.Custom(func(t *rapid.T) action {
	counter := rapid.SampledFrom([]int{0, 0, 1, 2, 3, 5, checkpoint.Newest})
	return mark{anySession.Draw(t, "session"), anyLease.Draw(t, "lease"), checkpoint.Marks{
		Summarized: counter.Draw(t, "summarized"),
		Delivered:  counter.Draw(t, "delivered"),
		Release:    rarely.Draw(t, "release"),
		Retry:      rapid.SampledFrom([]time.Duration{0, 0, 0, 1, short, long, long}).Draw(t, "retry"),
	}}
})

var retries = rapid.Custom(func(t *rapid.T) action {
	after := rapid.SampledFrom([]time.Duration{1, short, long, long}).Draw(t, "after")
	return mark{anySession.Draw(t, "session"), anyLease.Draw(t, "lease"), checkpoint.Marks{Retry: after}}
})

var renews = rapid.Custom(func(t *rapid.T) action {
	r := renew{Short: rapid.Bool().Draw(t, "short")}
	for i := range r.Leases {
		r.Leases[i] = rapid.IntRange(0, 3).Draw(t, "leases")
	}
	return r
})

var lists = rapid.Custom(func(t *rapid.T) action {
	owing := rapid.Bool().Draw(t, "owing")
	q := checkpoint.SessionQuery{
		Prefix: rapid.SampledFrom([]string{"", "", "a", "a_", "a%", "{", ":", "🙂", "A"}).Draw(t, "prefix"),
		After:  rapid.SampledFrom([]string{"", "", "a", "a_", "ab", "~"}).Draw(t, "after"),
		Limit:  rapid.IntRange(0, 3).Draw(t, "limit"),
		Owing:  owing,
		Due:    owing && rapid.Bool().Draw(t, "due"),
	}
	if rapid.Bool().Draw(t, "labeled") {
		q.Label, q.By = rapid.SampledFrom(labels).Draw(t, "label"), day(anyDays.Draw(t, "by"))
	}
	return list{q}
})
