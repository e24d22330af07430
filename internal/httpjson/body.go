package httpjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/internal/jsontype"
	"github.com/holdfast-go/holdfast/internal/jsonvalue"
)

// bodyPatience is how long the body of a request may take to arrive.
const bodyPatience = 30 * time.Second

// LimitBody bounds the size of the body, and how long it may take. Whoever has read the body calls Arrived.
func LimitBody(w http.ResponseWriter, r *http.Request, most int64) {
	if r.Body == nil || r.Body == http.NoBody {
		Arrived(w)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, most)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience))
}

// DropBody reads a body that its route does not take. The server would read it before the reply, for longer than a
// write may take: the client of a body that drips would get no answer to what was done.
func DropBody(w http.ResponseWriter, r *http.Request) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return Unread(err)
	}
	Arrived(w)
	return nil
}

// restPatience is how long the rest of the body of a request that is refused may take to arrive. The server reads it
// before it answers. So it is less than WritePatience.
const restPatience = 5 * time.Second

// HurryBody bounds how long the rest of the body may take.
func HurryBody(w http.ResponseWriter, r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(restPatience))
	}
}

// Arrived ends the deadlines for the request. Otherwise they would end the context of the request while it is served.
func Arrived(w http.ResponseWriter) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
}

// Unread returns the refusal of a body that could not be read.
func Unread(err error) *Refusal {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return ErrTooLarge
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrSlow
	}
	return ErrBadRequest.Because("The body is not what this route takes.")
}

// Body is Members of a request whose body is needed no longer than this.
func Body(w http.ResponseWriter, r *http.Request, names ...string) (map[string]json.RawMessage, error) {
	all, err := Members(r, names...)
	if err == nil {
		Arrived(w)
	}
	return all, err
}

// Members reads a body of one JSON object with members of these names, and no others. A member that is null is as good
// as missing.
func Members(r *http.Request, names ...string) (map[string]json.RawMessage, error) {
	doc, err := Read(r)
	if err != nil {
		return nil, err
	}
	may := " may have these members: " + strings.Join(names, ", ") + "."
	var all map[string]json.RawMessage
	if err := json.Unmarshal(doc, &all); err != nil || all == nil {
		return nil, ErrBadRequest.Because("The body has to be a JSON object. It" + may)
	}
	found := make(map[string]json.RawMessage, len(names))
	for _, name := range names {
		if v, ok := all[name]; ok && string(v) != "null" {
			found[name] = v
		}
		delete(all, name)
	}
	if len(all) > 0 {
		name := slices.Sorted(maps.Keys(all))[0]
		return nil, ErrBadRequest.Because(Unknown("member", name) + " The body" + may)
	}
	return found, nil
}

// Unknown says that a member or a parameter is not known. It names it if the name is letters, digits, and -_.$[]: no
// document repeats any other text of a client.
func Unknown(what, name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.$[]"
	if name == "" || len(name) > 64 || strings.Trim(name, plain) != "" {
		return "A " + what + " is not known."
	}
	return "The " + what + " " + name + " is not known."
}

// ReadInto reads the body of a request, a JSON object, into the struct that v points to. A member that the struct does
// not have is an error.
func ReadInto(r *http.Request, v any) error {
	doc, err := Read(r)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if strings.HasPrefix(strings.TrimSpace(string(doc)), "{") && d.Decode(v) == nil {
		return nil
	}
	return ErrBadRequest.Because(misread(doc, v))
}

// misread says why a document cannot be read into v.
func misread(doc []byte, v any) string {
	t := reflect.TypeOf(v).Elem()
	if json.Unmarshal(doc, reflect.New(t).Interface()) == nil {
		if lost := jsontype.MembersOf(t).Lost(doc); len(lost) > 0 {
			return Unknown("member", lost[0])
		}
	}
	return "The body has to be a JSON object with the members that this route takes."
}

// Read reads a body of one JSON value that can be kept.
func Read(r *http.Request) ([]byte, error) {
	if err := CheckType(r); err != nil {
		return nil, err
	}
	if r.Body == nil { // a request that no server has read
		r.Body = http.NoBody
	}
	doc, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, Unread(err)
	}
	return doc, check(doc)
}

// CheckType refuses a request that does not say that its body is JSON. A form of another origin cannot say so.
func CheckType(r *http.Request) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return ErrContentType
	}
	return nil
}

// check refuses a body that is not one JSON value which can be kept. It does not repeat what the client sent.
func check(doc []byte) error {
	var one json.RawMessage
	d := json.NewDecoder(bytes.NewReader(doc))
	switch err := d.Decode(&one); {
	case errors.Is(err, io.EOF):
		return ErrBadRequest.Because("The body is empty.")
	case err != nil:
		return ErrBadRequest.Because("The body is no JSON.")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return ErrBadRequest.Because("The body has more behind its JSON value.")
	}
	if jsonvalue.Check(doc) != nil { // the decoder takes these, and changes some of them
		return ErrBadRequest.Because("The body has JSON that cannot be kept: invalid UTF-8, U+0000, " +
			"half of a surrogate, too many levels, or a number that is too long.")
	}
	return nil
}

// Text returns a member that is a string. It is "" if the member is missing.
func Text(all map[string]json.RawMessage, name string) (string, error) {
	v, ok := all[name]
	if !ok {
		return "", nil
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return "", ErrBadRequest.Because("The member " + name + " has to be a string.")
	}
	return s, nil
}

// Key returns the Idempotency-Key; "" if there is none. A key in quotes, as the draft of the IETF has it, is the key
// without them.
func Key(r *http.Request) (string, error) {
	all := r.Header.Values("Idempotency-Key")
	if len(all) == 0 {
		return "", nil
	}
	key, whole := all[0], true
	if strings.HasPrefix(key, `"`) {
		key, whole = unquote(key)
	}
	switch {
	case !whole:
		return "", ErrBadRequest.Because("A header Idempotency-Key in quotes has to be ASCII text, " +
			`with \" and \\ for a quote and a backslash, and nothing behind it.`)
	case len(all) > 1, ids.Check("key", key) != nil:
		return "", ErrBadRequest.Because("The header Idempotency-Key has to be there once, " +
			"with 1 to 512 bytes of text.")
	}
	return key, nil
}

// unquote returns the text of a String of RFC 9651, without parameters.
func unquote(quoted string) (text string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(quoted); i++ {
		c := quoted[i]
		switch {
		case c == '"':
			return b.String(), i == len(quoted)-1
		case c < ' ' || c > '~':
			return "", false
		case c == '\\':
			i++
			if i == len(quoted) || quoted[i] != '"' && quoted[i] != '\\' {
				return "", false
			}
			c = quoted[i]
		}
		b.WriteByte(c)
	}
	return "", false
}
