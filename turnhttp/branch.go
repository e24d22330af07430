package turnhttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/ids"
)

// errNoTurn is not-found of a turn to branch from.
var errNoTurn = errNotFound.Because("The session has no such turn, or keeps it no longer.")

// postBranch begins a session from a turn of another. Whoever may talk in the new session reads in it what was said in
// the other one. So Authorize is asked for both.
func (s *server[S]) postBranch(w http.ResponseWriter, r *http.Request, from target) error {
	if s.Chat == nil {
		return errNotFound
	}
	all, err := httpjson.Body(w, r, "session", "turn")
	if err != nil {
		return err
	}
	to, err := httpjson.Text(all, "session")
	if err != nil {
		return err
	}
	if ids.Check("session", to) != nil {
		return errBadRequest.Because("The member session names the new one, in 1 to 512 bytes of text.")
	}
	turn, err := turnNumber(all["turn"])
	if err != nil {
		return err
	}
	if _, err := s.authorize(r, to, ActionTurn); err != nil {
		return err
	}
	if to == from.session {
		return checkpoint.ErrConflict
	}
	ctx, cancel := s.finish(r)
	defer cancel()
	_, err = ask("Options.Chat", func() (struct{}, error) {
		return struct{}{}, s.Chat.Branch(ctx, from.session, turn, to)
	})
	switch {
	case errors.Is(err, checkpoint.ErrNotFound):
		return errNoTurn
	case err != nil:
		return err
	}
	w.Header().Set("Location", "../"+escapeName(to))
	return httpjson.Reply(w, http.StatusCreated, map[string]string{"session": to})
}

// turnNumber reads the member turn. If it is missing, the newest turn is meant.
func turnNumber(raw json.RawMessage) (turn int, err error) {
	switch {
	case raw == nil:
		return checkpoint.Newest, nil
	case json.Unmarshal(raw, &turn) != nil || turn < 0:
		return 0, noNumber("member turn")
	case turn >= checkpoint.Newest:
		return 0, errNoTurn
	}
	return turn, nil
}

// escapeName returns a name as a segment of a path. The names "." and ".." would be steps.
func escapeName(name string) string {
	switch name {
	case ".":
		return "%2E"
	case "..":
		return "%2E%2E"
	}
	return url.PathEscape(name)
}
