package modeltest

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/message"
	"github.com/holdfast-go/holdfast/models"
	"github.com/holdfast-go/holdfast/retry"
)

// A flawed model does something wrong with what a sound one says.
type flawed struct {
	agent.Model
	ask  func(*agent.Request)
	flaw func(*agent.Reply, error) error
}

func (f flawed) Reply(ctx context.Context, r agent.Request, token func(string)) (agent.Reply, error) {
	if f.ask != nil {
		f.ask(&r)
	}
	reply, err := f.Model.Reply(ctx, r, token)
	if f.flaw != nil {
		err = f.flaw(&reply, err)
	}
	return reply, err
}

func (f flawed) CheckTools([]agent.Tool) error { return nil }

// flaws are what the clauses convict, by the name of a clause that does.
var flaws = map[string]func(*agent.Reply, error) error{
	"says": func(r *agent.Reply, err error) error { r.Usage.Cost = 0; return err },
	"asks": func(r *agent.Reply, err error) error {
		r.Message.Blocks = r.Message.Blocks[:min(2, len(r.Message.Blocks))]
		return err
	},
	"thinks": func(r *agent.Reply, err error) error {
		for i, b := range r.Message.Blocks {
			if b.Kind == message.KindReasoning {
				r.Message.Blocks[i] = message.Reasoning(b.Text, nil)
			}
		}
		return err
	},
	"cut off": func(r *agent.Reply, err error) error {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			r.Message = message.Assistant("")
			return nil
		}
		return err
	},
	"statuses":            func(_ *agent.Reply, err error) error { return retry.Permanent(err) },
	"fails in the middle": func(_ *agent.Reply, err error) error { return unmarked(err) },
	"refuses":             func(_ *agent.Reply, err error) error { return unmarked(err) },
	"length":              func(r *agent.Reply, err error) error { r.Cut = false; return err },
	"nonsense": func(r *agent.Reply, err error) error {
		r.Message.Blocks = slices.DeleteFunc(r.Message.Blocks, func(b message.Block) bool {
			c, ok := b.Call()
			return ok && strings.HasPrefix(string(c.Args), `"`)
		})
		return err
	},
	"never ends": func(_ *agent.Reply, err error) error { return unmarked(err) },
	"tools":      func(_ *agent.Reply, err error) error { return err },
	"keys": func(_ *agent.Reply, err error) error {
		if err != nil {
			err = errors.New(err.Error() + " sk-secret")
		}
		return err
	},
	"agent": func(_ *agent.Reply, err error) error { return retry.Permanent(err) },
	"shop":  func(r *agent.Reply, err error) error { r.Message = message.Assistant("x"); return err },
}

// asking are the flaws of what is asked.
var asking = map[string]func(*agent.Request){
	"typed": func(r *agent.Request) { r.MustCall = false },
	"joins": func(r *agent.Request) { r.Said = r.Said[1:] },
}

// unmarked returns an error without what it wraps.
func unmarked(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(err.Error())
}

// Convict checks that each clause convicts a model which does what the clause forbids.
func Convict(t *testing.T, api API) {
	for _, c := range clauses {
		flaw, ask := flaws[c.name], asking[c.name]
		if flaw == nil && ask == nil { // of the prices, which New refuses
			continue
		}
		broken := api
		broken.New = func(model, url, key string, p models.Prices) (agent.Model, error) {
			m, err := api.New(model, url, key, p)
			return flawed{m, ask, flaw}, err
		}
		t.Run(c.name, func(t *testing.T) {
			j := &judge{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.check(j, broken)
			}()
			if <-done; !j.guilty {
				t.Error("the clause is content with a model that is not sound")
			}
		})
	}
}

// A judge is a test that may fail.
type judge struct {
	testing.TB
	guilty bool
}

func (j *judge) Error(...any)          { j.guilty = true }
func (j *judge) Errorf(string, ...any) { j.guilty = true }
func (j *judge) Fatal(...any)          { j.guilty = true; runtime.Goexit() }
func (j *judge) Fatalf(string, ...any) { j.guilty = true; runtime.Goexit() }
