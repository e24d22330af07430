package model

import (
	"bytes"
	"encoding/json"
	"mime"
	"strings"

	"github.com/openai/openai-go/v3"

	"github.com/holdfast-go/holdfast/oncehttp"
)

// usable reports whether a reply is worth recording: whether Classify, Compose or Summarize would return it. An intent
// that is tried again after ErrReply asks anew.
func usable(r oncehttp.Reply) bool {
	if kind, _, _ := mime.ParseMediaType(r.Type); kind != "text/event-stream" {
		var res openai.ChatCompletion
		if json.Unmarshal(r.Body, &res) != nil {
			return false
		}
		_, err := intentOf(&res)
		return err == nil
	}
	var a answer
	for line := range bytes.Lines(r.Body) {
		data, ok := strings.CutPrefix(string(bytes.TrimSpace(line)), "data:")
		if data = strings.TrimSpace(data); !ok || data == "[DONE]" {
			continue
		}
		var chunk openai.ChatCompletionChunk
		if json.Unmarshal([]byte(data), &chunk) != nil {
			return false
		}
		a.add(chunk)
	}
	return a.err() == nil
}
