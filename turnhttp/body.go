package turnhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// bodyPatience is how long the body of a request may take to arrive.
const bodyPatience = 30 * time.Second

// limitBody bounds the size of the body, and how long it may take. Whoever has read the body calls arrived.
func limitBody(w http.ResponseWriter, r *http.Request, most int64) {
	if r.Body == nil || r.Body == http.NoBody {
		arrived(w)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience))
}

// takesBody reports whether the route of a request reads the body.
func takesBody(r *http.Request) bool {
	path, err := segments(r.URL)
	return r.Method == http.MethodPost && err == nil && (len(path) != 3 || path[2] != "resume")
}

// dropBody reads a body that its route does not take. The server would read it before the reply, for longer than a
// write may take: the client of a body that drips would get no answer to what was done.
func dropBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return unreadBody(err)
	}
	arrived(w)
	return nil
}

// restPatience is how long the rest of the body of a request that is refused may take to arrive. The server reads it
// before it answers. So it is less than writePatience.
const restPatience = 5 * time.Second

// hurryBody bounds how long the rest of the body may take.
func hurryBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restPatience))
	}
}

// arrived ends the deadlines for the request. Otherwise they would end the context of the request while its turn runs.
func arrived(w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
}

// unreadBody returns the error of a body that could not be read, or was refused.
func unreadBody(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errSlow
	}
	if _, ok := errors.AsType[*orchestrator.InputError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*refusal](err); ok || panicOf(err) != nil {
		return err
	}
	return errBadRequest.because("The body is not what this route takes.")
}

// body is members of a request whose body is needed no longer than this.
func body(w http.ResponseWriter, r *http.Request, names ...string) (map[string]json.RawMessage, error) {
	all, err := members(r, names...)
	if err == nil {
		arrived(w)
	}
	return all, err
}

// members reads a body of one JSON object with members of these names, and no others. A member that is null is as good
// as missing.
func members(r *http.Request, names ...string) (map[string]json.RawMessage, error) {
	doc, err := readBody(r)
	if err != nil {
		return nil, err
	}
	may := " It may have these members: " + strings.Join(names, ", ") + "."
	var all map[string]json.RawMessage
	if err := json.Unmarshal(doc, &all); err != nil || all == nil {
		return nil, errBadRequest.because("The body has to be a JSON object." + may)
	}
	found := make(map[string]json.RawMessage, len(names))
	for _, name := range names {
		if v, ok := all[name]; ok && string(v) != "null" {
			found[name] = v
		}
		delete(all, name)
	}
	if len(all) > 0 {
		return nil, errBadRequest.because("The body has a member that is not known." + may)
	}
	return found, nil
}

// ReadJSON reads the body of a request, a JSON object, into the struct that v points to. It is for an Options.Input of
// a program's own, and for routes of its own: [Problem] says what is wrong with the body, and repeats nothing of it. A
// member that the struct does not have is an error. The handler bounds the body. On another route, do so by
// http.MaxBytesReader before.
func ReadJSON(r *http.Request, v any) error {
	doc, err := readBody(r)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if !strings.HasPrefix(strings.TrimSpace(string(doc)), "{") || d.Decode(v) != nil {
		return errBadRequest.because("The body has to be a JSON object with the members that this route takes.")
	}
	return nil
}

// readBody reads a body of one JSON value that can be kept.
func readBody(r *http.Request) ([]byte, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, errContentType
	}
	doc, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unreadBody(err)
	}
	return doc, checkBody(doc)
}

// checkBody refuses a body that is not one JSON value which can be kept. It does not repeat what the client sent.
func checkBody(doc []byte) error {
	var one json.RawMessage
	d := json.NewDecoder(bytes.NewReader(doc))
	switch err := d.Decode(&one); {
	case errors.Is(err, io.EOF):
		return errBadRequest.because("The body is empty.")
	case err != nil:
		return errBadRequest.because("The body is no JSON.")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errBadRequest.because("The body has more behind its JSON value.")
	}
	if jsonvalue.Check(doc) != nil { // the decoder takes these, and changes some of them
		return errBadRequest.because("The body has JSON that cannot be kept: invalid UTF-8, U+0000, " +
			"half of a surrogate, too many levels, or a number that is too long.")
	}
	return nil
}

// text returns a member that is a string. It is "" if the member is missing.
func text(all map[string]json.RawMessage, name string) (string, error) {
	v, ok := all[name]
	if !ok {
		return "", nil
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return "", errBadRequest.because("The member " + name + " has to be a string.")
	}
	return s, nil
}

// messageInput is Options.Input, unless a program has its own.
func messageInput(r *http.Request) (in orchestrator.Input, err error) {
	all, err := members(r, "message", "data")
	if err != nil {
		return in, err
	}
	in.Text, err = text(all, "message")
	in.Data = all["data"]
	return in, err
}

// keysOfAnswers begins the request ids of answers. No client may use one of these as its key.
const keysOfAnswers = "turnhttp/answer/"

var errReservedKey = errBadRequest.because("A key must not begin with " + keysOfAnswers + ".")

// keyOf returns the Idempotency-Key; "" if there is none.
func keyOf(r *http.Request) (string, error) {
	all := r.Header.Values("Idempotency-Key")
	switch {
	case len(all) == 0:
		return "", nil
	case len(all) > 1, ids.Check("key", all[0]) != nil:
		return "", errBadRequest.because("The header Idempotency-Key has to be there once, " +
			"with 1 to 512 bytes of text.")
	case strings.HasPrefix(all[0], keysOfAnswers):
		return "", errReservedKey
	}
	return all[0], nil
}
