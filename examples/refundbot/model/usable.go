package model

import (
	"bytes"
	"mime"

	"github.com/holdfast-go/holdfast/oncehttp"
)

// usable reports whether a reply is worth recording: whether Classify, Compose or Summarize would return it. An intent
// that is tried again after ErrReply asks anew.
func usable(r oncehttp.Reply) bool {
	if kind, _, _ := mime.ParseMediaType(r.Type); kind != "text/event-stream" {
		var c completion
		if parse(r.Body, &c) != nil {
			return false
		}
		_, err := intentOf(c)
		return err == nil
	}
	var a answer
	err := chunks(bytes.NewReader(r.Body), func(c completion) { a.add(c) })
	return err == nil && a.err() == nil
}
