package main

import (
	"fmt"
	"time"
)

// A goal bounds a figure. The zero goal bounds nothing. It shows how many times as fast as the reference a subject is.
type goal struct {
	kind  kind
	bound float64 // 0: none
	unit  string  // of an amount
}

type kind int

const (
	// speed is operations per second, as a multiple of the reference's.
	speed kind = iota
	// cost is the time of one operation, as a multiple of the reference's.
	cost
	// latency is the time of one operation, in seconds.
	latency
	pace    // operations per second
	garbage // allocations of one operation
	// memory is the bytes that one operation allocates.
	memory
	// effort is the time of processors that one operation takes, as a multiple of the reference's.
	effort
	// amount is how many units there are.
	amount
)

func atLeast(timesAsFast float64) goal { return goal{kind: speed, bound: timesAsFast} }

func atMost(timesTheTime float64) goal { return goal{kind: cost, bound: timesTheTime} }

func atPace(perSecond float64) goal { return goal{kind: pace, bound: perSecond} }

func allocating(atMost float64) goal { return goal{kind: garbage, bound: atMost} }

func allocatingBytes(atMost float64) goal { return goal{kind: memory, bound: atMost} }

// working bounds the processor time of client and server together.
func working(atMost float64) goal { return goal{kind: effort, bound: atMost} }

func keeping(atMost float64, unit string) goal { return goal{amount, atMost, unit} }

func below(d time.Duration) goal { return goal{kind: latency, bound: d.Seconds()} }

// of returns the figure that the goal bounds.
func (g goal) of(s sample) float64 {
	switch g.kind {
	case cost:
		return s.reference / s.rate
	case latency:
		return 1 / s.rate
	case pace:
		return s.rate
	case garbage:
		return s.allocs
	case memory:
		return s.bytes
	case effort:
		return s.work / s.referenceWork
	case amount:
		return s.amount
	default:
		return s.rate / s.reference
	}
}

func (g goal) met(r result) bool {
	figure := r.median(g.of)
	switch {
	case g.bound == 0:
		return true
	case g.least():
		return figure >= g.bound
	default:
		return figure <= g.bound
	}
}

// least reports whether a higher figure is better.
func (g goal) least() bool { return g.kind == speed || g.kind == pace }

// measured returns the median of the rounds, and their range.
func (g goal) measured(r result) string {
	all := r.sorted(g.of)
	return fmt.Sprintf("%s (%s–%s)", g.format(r.median(g.of)), g.number(all[0]), g.number(all[len(all)-1]))
}

// String returns the bound in words.
func (g goal) String() string {
	switch {
	case g.bound == 0:
		return "–"
	case g.least():
		return "≥ " + g.format(g.bound)
	default:
		return "≤ " + g.format(g.bound)
	}
}

func (g goal) format(figure float64) string {
	switch g.kind {
	case cost:
		return g.number(figure) + " × the time"
	case latency:
		return g.number(figure) + " ms"
	case pace:
		return g.number(figure) + " per s"
	case garbage:
		return g.number(figure) + " allocations"
	case memory:
		return g.number(figure) + " KiB allocated"
	case effort:
		return g.number(figure) + " × the processor"
	case amount:
		return g.number(figure) + " " + g.unit
	default:
		return g.number(figure) + " ×"
	}
}

func (g goal) number(figure float64) string {
	switch g.kind {
	case latency:
		figure *= 1000
	case memory:
		figure /= 1024
	}
	if figure >= 100 {
		return fmt.Sprintf("%.0f", figure)
	}
	return fmt.Sprintf("%.2f", figure)
}
