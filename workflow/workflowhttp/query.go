package workflowhttp

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/workflow"
)

// The bounds of a page.
const (
	defaultPage = 50
	mostRuns    = 500     // runs
	mostBytes   = 4 << 20 // of inputs, outputs and errors, and those of one run more
)

const parameters = "The parameters are status, since, until, cursor, limit, and input.path=value, each once."

// queryOf returns the query of a list.
func queryOf(raw string) (q workflow.Query, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, httpjson.ErrBadRequest.Because("The query of the URL is malformed. " + parameters)
	}
	q.Limit = defaultPage
	input := make(map[string]any)
	for name, all := range values {
		if len(all) != 1 {
			return q, httpjson.ErrBadRequest.Because("A parameter is given twice. " + parameters)
		}
		if err := setParameter(&q, input, name, all[0]); err != nil {
			return q, err
		}
	}
	if len(input) > 0 {
		q.Input = httpjson.Marshal(input)
	}
	return q, nil
}

func setParameter(q *workflow.Query, input map[string]any, name, value string) (err error) {
	if path, ok := strings.CutPrefix(name, "input."); ok {
		return setInput(input, strings.Split(path, "."), value)
	}
	switch name {
	case "status":
		q.Status = workflow.Status(value)
	case "since":
		q.Since, err = timeOf(name, value)
	case "until":
		q.Until, err = timeOf(name, value)
	case "cursor":
		q.After, err = placeOf(value)
	case "limit":
		if q.Limit, err = strconv.Atoi(value); err != nil || q.Limit < 1 || q.Limit > mostRuns {
			err = httpjson.ErrBadRequest.Because(
				"The limit has to be a number from 1 to " + strconv.Itoa(mostRuns) + ".")
		}
	default:
		err = httpjson.ErrBadRequest.Because(httpjson.Unknown("parameter", name) + " " + parameters)
	}
	return err
}

// setInput adds a condition to the part that inputs have to contain.
func setInput(part map[string]any, path []string, value string) error {
	name := path[0]
	if name == "" || !utf8.ValidString(name) || !utf8.ValidString(value) {
		return httpjson.ErrBadRequest.Because(
			"A parameter input.path names members of the input, with dots between them.")
	}
	known, has := part[name]
	if len(path) == 1 && !has {
		part[name] = typed(value)
		return nil
	}
	if !has {
		known = make(map[string]any)
		part[name] = known
	}
	inner, ok := known.(map[string]any)
	if !ok || len(path) == 1 {
		return httpjson.ErrBadRequest.Because("Two parameters input.path are about one member of the input.")
	}
	return setInput(inner, path[1:], value)
}

// typed returns a value as JSON, if it is JSON, and as a string otherwise.
func typed(value string) any {
	if json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	return value
}

func timeOf(name, value string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, value); err == nil {
			return t, nil
		}
	}
	return time.Time{}, httpjson.ErrBadRequest.Because(
		"The parameter " + name + " has to be a time such as 2026-05-01T12:00:00Z, or a date such as 2026-05-01.")
}

// cursorOf returns the cursor of the page after a run.
func cursorOf(r *workflow.Run) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(r.Started.UnixMicro(), 36) + "." + r.ID))
}

// placeOf returns the last run of the page before.
func placeOf(cursor string) (*workflow.Run, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	at, id, ok := strings.Cut(string(text), ".")
	micros, err2 := strconv.ParseInt(at, 36, 64)
	if err != nil || err2 != nil || !ok {
		return nil, httpjson.ErrBadRequest.Because("The cursor is none that a page had as its next.")
	}
	return &workflow.Run{ID: id, Started: time.UnixMicro(micros).UTC()}, nil
}
