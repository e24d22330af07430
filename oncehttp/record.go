package oncehttp

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/ledger"
)

// A record is a Reply as JSON. A body that is text stays legible.
type record struct {
	Status   int    `json:"status"`
	Type     string `json:"type,omitempty"`
	Encoding string `json:"encoding,omitempty"`
	Text     string `json:"text,omitempty"`

	// Header is that of Reply.
	Header http.Header `json:"header,omitempty"`

	// Bytes is a body that is no UTF-8, or has a U+0000, which not every ledger takes.
	Bytes []byte `json:"bytes,omitempty"`
}

func newRecord(r Reply) record {
	rec := record{Status: r.Status, Type: legible(r.Type), Encoding: legible(r.Encoding), Header: r.Header}
	if utf8.Valid(r.Body) && bytes.IndexByte(r.Body, 0) < 0 {
		rec.Text = string(r.Body)
	} else {
		rec.Bytes = r.Body
	}
	return rec
}

// legible returns the value of a header as JSON can hold it. Otherwise the record that comes back is not the same.
func legible(value string) string { return strings.ToValidUTF8(value, string(utf8.RuneError)) }

// fits reports whether a ledger takes the record.
func (r record) fits() bool {
	doc, err := json.Marshal(r)
	return err == nil && ledger.ValidateFinish("any", 1, ledger.Outcome{State: ledger.Completed, Result: doc}) == nil
}

// same reports whether two records are of the same reply, whatever Header says.
func (r record) same(other record) bool {
	return r.Status == other.Status && r.Type == other.Type && r.Encoding == other.Encoding &&
		bytes.Equal(r.body(), other.body())
}

func (r record) body() []byte {
	if r.Bytes != nil {
		return r.Bytes
	}
	return []byte(r.Text)
}

// response returns the reply to a request.
func (r record) response(req *http.Request) *http.Response {
	_ = closeBody(req)
	header := make(http.Header, len(r.Header)+2)
	maps.Copy(header, r.Header.Clone())
	for name, value := range map[string]string{"Content-Type": r.Type, "Content-Encoding": r.Encoding} {
		if value != "" {
			header.Set(name, value)
		}
	}
	body := r.body()
	return &http.Response{
		Status: strconv.Itoa(r.Status) + " " + http.StatusText(r.Status), StatusCode: r.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: req,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// The headers that are recorded beside those of the body: what SDKs show of a reply. A name with a dash at its end is
// how names begin. No header that may hold a secret is here.
var headers = []string{
	"Request-Id", "X-Request-Id", "X-Amzn-Requestid", "Apim-Request-Id", "Retry-After", "Retry-After-Ms",
	"Openai-Processing-Ms", "X-Ratelimit-", "Anthropic-Ratelimit-",
}

// What the recorded headers of a reply may take.
const (
	mostHeaders = 32
	mostHeader  = 256 // bytes of a value
)

// shown returns the headers of a reply that are recorded; nil if there are none.
func shown(all http.Header) (some http.Header) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		values := all[name]
		if !isShown(name) || len(some) == mostHeaders || len(strings.Join(values, "")) > mostHeader {
			continue
		}
		if some == nil {
			some = make(http.Header)
		}
		for _, value := range values {
			some.Add(name, legible(value))
		}
	}
	return some
}

func isShown(name string) bool {
	return slices.ContainsFunc(headers, func(one string) bool {
		rest, ok := strings.CutPrefix(name, one)
		return ok && (rest == "") != strings.HasSuffix(one, "-")
	})
}
