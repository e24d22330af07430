package transcript

import (
	"cmp"
	"slices"
)

// A Span is the messages From to Through, both included. Numbers begin at 1. The zero Span has no message.
type Span struct{ From, Through int64 }

// Join returns all with s behind them.
func Join(all []Span, s Span) []Span {
	switch n := len(all); {
	case s == Span{}:
		return all
	case n > 0 && all[n-1] != Span{} && all[n-1].Through+1 == s.From:
		joined := slices.Clone(all)
		joined[n-1].Through = s.Through
		return joined
	default:
		return append(all[:n:n], s)
	}
}

// Count returns how many messages there are in spans.
func Count(all []Span) (n int64) {
	for _, s := range all {
		n += s.count()
	}
	return n
}

// First returns the spans of the first n messages.
func First(all []Span, n int64) (kept []Span) {
	for _, s := range all {
		if n <= 0 {
			break
		}
		if s == (Span{}) {
			continue
		}
		s.Through = min(s.Through, s.From+n-1)
		n -= s.count()
		kept = append(kept, s)
	}
	return kept
}

func (s Span) count() int64 {
	if s == (Span{}) {
		return 0
	}
	return s.Through - s.From + 1
}

// meets reports whether s and one of the spans have a number in common.
func (s Span) meets(spans []Span) bool {
	return slices.ContainsFunc(spans, func(o Span) bool { return o.From <= s.Through && s.From <= o.Through })
}

// Union returns the numbers of spans, each once and in order.
func Union(all ...[]Span) (merged []Span) {
	spans := slices.DeleteFunc(slices.Concat(all...), func(s Span) bool { return s == Span{} })
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	for _, s := range spans {
		if last := len(merged) - 1; last >= 0 && s.From <= merged[last].Through+1 {
			merged[last].Through = max(merged[last].Through, s.Through)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}
