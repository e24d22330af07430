package turnhttp

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// How many turns a page of a session has.
const (
	turnsPage = 20
	turnsMost = 200
)

func (s *server[S]) getSession(w http.ResponseWriter, r *http.Request, to target) error {
	before, err := number(r, "before", math.MaxInt)
	if err != nil {
		return err
	}
	limit, err := number(r, "limit", turnsPage)
	if err != nil {
		return err
	}
	st, err := s.bot.Inspect(r.Context(), to.session)
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
		number, shown, err := s.oneTurn(res, err)
		if err != nil {
			return err
		}
		if number >= before {
			continue
		}
		if len(doc.Turns) == limit {
			doc.More = true
			return nil
		}
		doc.Turns = append(doc.Turns, shown)
	}
	return nil
}

// oneTurn returns what is shown of a turn of Turns, and its number.
func (s *server[S]) oneTurn(res *orchestrator.Result[S], err error) (number int, shown any, _ error) {
	if e, broken := foreign.OneTurn(err); broken {
		return e.Turn, brokenDoc{e.Turn, s.problem(err)}, nil
	}
	if err != nil {
		return 0, nil, err
	}
	doc, err := s.turn(res)
	if err != nil {
		return 0, nil, err
	}
	doc.Session = ""
	return doc.Turn, doc, nil
}

// number returns a number of the query. A number is not negative.
func number(r *http.Request, name string, otherwise int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, noNumber("parameter " + name)
	}
	return n, nil
}

// noNumber refuses a header or a parameter.
func noNumber(what string) error {
	return errBadRequest.Because("The " + what + " has to be a number in digits, 0 or more.")
}
