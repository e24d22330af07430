package suite_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/suite"
)

// clauses are a contract about a number.
var clauses = suite.Clauses[int]{
	{Name: "even", Rule: "the number is even", Check: func(_ context.Context, n int) error {
		if n%2 != 0 {
			return errors.New("odd")
		}
		return nil
	}},
	{Name: "positive", Rule: "the number is positive", Check: func(_ context.Context, n int) error {
		deeper := func() {
			if n <= 0 {
				suite.Fail("%d is not", n)
			}
		}
		deeper()
		return nil
	}},
	{Name: "waits", Rule: "the number is not 8", Check: func(ctx context.Context, n int) error {
		if n == 8 {
			<-ctx.Done()
			suite.OK(ctx.Err())
		}
		return nil
	}},
}

func number(n int) func() int { return func() int { return n } }

func TestRun(t *testing.T) {
	opened := 0
	clauses.Run(t, func(*testing.T) int { opened++; return 4 })
	if opened != len(clauses) {
		t.Errorf("%d clauses had %d subjects", len(clauses), opened)
	}
}

func TestViolations(t *testing.T) {
	for _, test := range []struct {
		n     int
		names []string
		want  []string
	}{
		{4, nil, nil},
		{-1, nil, []string{"even", "positive"}},
		{-1, []string{"even"}, []string{"even"}},
		{-1, []string{"unknown"}, nil},
	} {
		found := clauses.Violations(t.Context(), number(test.n), test.names...)
		var names []string
		for name := range found {
			names = append(names, name)
		}
		if slices.Sort(names); !slices.Equal(names, test.want) {
			t.Errorf("%d breaks %q of %q, want %q", test.n, names, test.names, test.want)
		}
	}
}

func TestConvict(t *testing.T) {
	trial := suite.Trial[int]{Violations: clauses.Violations, Blocking: []string{"waits"}}
	trial.Convict(t, "even", number(3))
	trial.Convict(t, "positive", number(0))
	trial.Convict(t, "waits", number(8))
}

// A fault that shows only now and then is found if there are tries.
func TestConvictTries(t *testing.T) {
	n := 0
	suite.Trial[int]{Violations: clauses.Violations, Tries: 5}.Convict(t, "positive", func() int { n++; return 4 - n })
	if n != 4 {
		t.Errorf("convicted after %d tries, want 4", n)
	}
}

// A recorder notes that a test failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestTestsFail(t *testing.T) {
	for name, test := range map[string]func(tb testing.TB){
		"a broken clause passed": func(tb testing.TB) { clauses[0].Test(tb, 3) },
		"an accepted subject passed": func(tb testing.TB) {
			suite.Trial[int]{Violations: clauses.Violations, Tries: 2}.Convict(tb, "even", number(4))
		},
		"an unknown clause convicts": func(tb testing.TB) {
			suite.Trial[int]{Violations: clauses.Violations}.Convict(tb, "evn", number(3))
		},
	} {
		r := &recorder{TB: t}
		if test(r); !r.failed {
			t.Error(name)
		}
	}
}

func TestWith(t *testing.T) {
	double := func(n int) int { return 2 * n }
	for arg, broken := range map[int]bool{1: false, -1: true} {
		err := suite.With(arg, clauses[1]).Violation(t.Context(), double)
		if (err != nil) != broken {
			t.Errorf("with %d: %v", arg, err)
		}
	}
}

// A panic that is not of Fail is a fault of the suite.
func TestOtherPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a panic of a check was taken for a verdict")
		}
	}()
	c := suite.Clause[int]{Check: func(context.Context, int) error { panic("fault") }}
	_ = c.Violation(t.Context(), 1)
}

func TestFail(t *testing.T) {
	target := errors.New("target")
	for name, check := range map[string]func(){
		"Want": func() { suite.Want(errors.New("another"), target) },
		"OK":   func() { suite.OK(target) },
	} {
		c := suite.Clause[int]{Check: func(context.Context, int) error { check(); return nil }}
		if c.Violation(t.Context(), 1) == nil {
			t.Errorf("%s accepts it", name)
		}
	}
	suite.Want(errors.Join(target), target)
	suite.OK(nil)
}

func TestTogether(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	meet := make(chan struct{})
	suite.Together(
		func() {
			select {
			case meet <- struct{}{}:
			case <-ctx.Done():
			}
		},
		func() {
			select {
			case <-meet:
			case <-ctx.Done():
				t.Error("they did not run at once")
			}
		})
}
