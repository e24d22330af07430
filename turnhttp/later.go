package turnhttp

import (
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/internal/front"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// respondAsync is the preference of RFC 7240 for an answer before the turn has run.
const respondAsync = "respond-async"

// accept accepts an input for later, and says where its client finds out what becomes of it. accepted is false if the
// bot cannot do so: a preference is no demand, and the turn runs as without it.
func (s *server[S]) accept(
	w http.ResponseWriter, r *http.Request, session string, in orchestrator.Input,
) (accepted bool, err error) {
	ctx, cancel := s.finish(r)
	defer cancel()
	switch err := s.bot.Enqueue(ctx, session, in); {
	case errors.Is(err, orchestrator.ErrNoInbox):
		return false, nil
	case err != nil:
		return true, err
	}
	w.Header().Set("Preference-Applied", respondAsync)
	w.Header().Set("Location", "turns/"+escapeName(in.RequestID))
	return true, httpjson.Reply(w, http.StatusAccepted, map[string]string{"session": session, "request": in.RequestID})
}

// An inputDoc says what has become of an input.
type inputDoc struct {
	Session string         `json:"session"`
	Request string         `json:"request"`
	Status  string         `json:"status"`
	Run     *runDoc        `json:"run,omitempty"`
	Turn    *turnDoc       `json:"turn,omitempty"`
	Problem *front.Problem `json:"problem,omitempty"`
}

func (s *server[S]) getTurn(w http.ResponseWriter, r *http.Request, to target) error {
	p, err := s.bot.Progress(r.Context(), to.session, to.id)
	if err != nil {
		return err
	}
	doc := inputDoc{Session: to.session, Request: to.id, Status: string(p.Status), Run: inFlight(p.Run)}
	switch p.Status {
	case orchestrator.InputSettled:
		if doc.Turn, err = s.turn(p.Result); err != nil {
			return err
		}
	case orchestrator.InputFailed:
		failed := front.Doc(p.Problem).Below(s.site.ProblemBase)
		doc.Problem = &failed
	}
	return reply(w, doc)
}

// prefers reports whether a client prefers something that has no value, by the header Prefer of RFC 7240.
func prefers(r *http.Request, what string) bool {
	for _, line := range r.Header.Values("Prefer") {
		for _, one := range unquoted(line) {
			name, _, _ := strings.Cut(one, ";")
			if strings.EqualFold(strings.TrimSpace(name), what) {
				return true
			}
		}
	}
	return false
}

// unquoted splits the value of a header at its commas, but for those in quotes.
func unquoted(line string) []string {
	quoted, escaped := false, false
	return strings.FieldsFunc(line, func(c rune) bool {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		}
		return c == ',' && !quoted
	})
}
