package turnhttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// How many turns a page of a session has.
const (
	turnsPage = 20
	turnsMost = 200
)

func (s *server[S]) getSession(w http.ResponseWriter, r *http.Request, names []string) error {
	before, err := number(r, "before", math.MaxInt)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", turnsPage)
	if err != nil {
		return err
	}
	st, err := s.bot.Inspect(r.Context(), names[0])
	if _, drift := errors.AsType[*orchestrator.DriftError](err); err != nil && !drift {
		return err
	}
	doc := standing(st)
	if err := s.addTurns(r, &doc, before, min(max(limit, 1), turnsMost)); err != nil {
		return err
	}
	return reply(w, doc)
}

// addTurns adds the newest turns before a number.
func (s *server[S]) addTurns(r *http.Request, doc *sessionDoc, before, limit int) error {
	for res, err := range s.bot.Turns(r.Context(), doc.Session) {
		var each any
		n := 0
		if err != nil {
			e, broken := unusable(err)
			if !broken {
				return err
			}
			n, each = e.Turn, brokenDoc{e.Turn, problemOf(err)}
		} else {
			n = res.Turn
		}
		if n >= before {
			continue
		}
		if len(doc.Turns) == limit {
			doc.More = true
			return nil
		}
		if each == nil {
			shown, err := s.turn(res)
			if err != nil {
				return err
			}
			shown.Session = ""
			each = shown
		}
		doc.Turns = append(doc.Turns, each)
	}
	return nil
}

// unusable reports whether an error of Turns is about one turn only, after which Turns goes on.
func unusable(err error) (*orchestrator.Error, bool) {
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok {
		return nil, false
	}
	if _, ok := errors.AsType[*orchestrator.DriftError](err); ok {
		return e, true
	}
	_, ok = errors.AsType[*checkpoint.DamagedError](err)
	return e, ok
}

// number returns a number of the query. A number is not negative.
func number(r *http.Request, name string, otherwise int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, errBadRequest.because("The parameter " + name + " is no number.")
	}
	return n, nil
}
