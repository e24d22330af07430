package uichat

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/internal/foreign"
	"github.com/holdfast-go/holdfast/internal/httpjson"
	"github.com/holdfast-go/holdfast/internal/ids"
	"github.com/holdfast-go/holdfast/orchestrator"
)

// What Handler refuses beside what turnhttp.Handler does.
var (
	errNoEdit = httpjson.Refuse(http.StatusConflict, "no-edit", "What was said here cannot be changed.")
	errNoFile = httpjson.Refuse(http.StatusUnsupportedMediaType, "no-files", "Files are not taken here.")
)

// The triggers of the AI SDK.
const (
	submit     = "submit-message"
	regenerate = "regenerate-message"
)

// A request is what the transport sends. A page may add members of its own.
type request struct {
	ID        string        `json:"id"`
	Messages  []sentMessage `json:"messages"`
	Trigger   string        `json:"trigger"`
	MessageID string        `json:"messageId"`
}

type sentMessage struct {
	ID    string          `json:"id"`
	Role  string          `json:"role"`
	Parts json.RawMessage `json:"parts"`
}

// A sentPart is a part of a message, as far as it counts.
type sentPart struct {
	Type string `json:"type"`
	Text string `json:"text"`

	URL       string `json:"url"`
	MediaType string `json:"mediaType"`
	Filename  string `json:"filename"`

	State        string          `json:"state"`
	ToolCallID   string          `json:"toolCallId"`
	Output       json.RawMessage `json:"output"`
	ErrorText    string          `json:"errorText"`
	Executed     bool            `json:"providerExecuted"`
	CallMetadata struct {
		Holdfast struct {
			Sum string `json:"sum"`
		} `json:"holdfast"`
	} `json:"callProviderMetadata"`
	Approval struct {
		ID       string `json:"id"`
		Approved *bool  `json:"approved"`
		Reason   string `json:"reason"`
	} `json:"approval"`
}

func bad(why string) error { return httpjson.ErrBadRequest.Because(why) }

// readRequest reads a request of the transport, and what of it counts.
func readRequest(w http.ResponseWriter, r *http.Request) (q request, m sentMessage, parts []sentPart, err error) {
	doc, err := httpjson.Read(r)
	if err != nil {
		return q, m, nil, err
	}
	httpjson.Arrived(w)
	if !bytes.HasPrefix(bytes.TrimLeft(doc, " \t\r\n"), []byte("{")) || json.Unmarshal(doc, &q) != nil {
		return q, m, nil, bad("The body has to be a JSON object, as DefaultChatTransport sends it.")
	}
	if m, err = q.meant(); err != nil {
		return q, m, nil, err
	}
	if json.Unmarshal(m.Parts, &parts) != nil {
		return q, m, nil, bad("The parts of a message have to be those of a UIMessage.")
	}
	return q, m, parts, nil
}

// meant returns the message that the request is about: the newest one, or that of the assistant whose calls are
// answered. To regenerate, it is the newest one of the user.
func (q *request) meant() (m sentMessage, err error) {
	last := len(q.Messages) - 1
	at := last
	if i := slices.IndexFunc(q.Messages, func(m sentMessage) bool { return m.ID == q.MessageID }); i >= 0 &&
		q.MessageID != "" && q.Messages[i].Role == "assistant" {
		at = i
	}
	switch q.Trigger {
	case submit:
	case regenerate:
		for at = last; at >= 0 && q.Messages[at].Role != "user"; at-- {
			continue
		}
	default:
		return m, bad("The member trigger is submit-message or regenerate-message.")
	}
	if at < 0 {
		return m, bad("The member messages has no message of the user.")
	}
	m = q.Messages[at]
	switch {
	case m.Role != "user" && m.Role != "assistant":
		return m, bad("The newest message has to be of the user, or has to answer a call.")
	case ids.Check("message", m.ID) != nil, ids.CheckOptional("message", q.MessageID) != nil:
		return m, bad("The id of a message has to be text of 1 to 512 bytes.")
	case strings.HasPrefix(m.ID, approval.Prefix), strings.HasPrefix(m.ID, prefix):
		return m, bad("The id of a message must not begin with " + approval.Prefix + " or " + prefix + ".")
	case m.Role == "user" && q.Trigger == submit && q.MessageID != "" && q.MessageID != m.ID:
		return m, bad("The member messageId has to name the newest message.")
	}
	return m, nil
}

// words returns what a message of the user says. A file is handed to Options.File.
func (s *server[S]) words(r *http.Request, session string, parts []sentPart) (string, error) {
	var all []string
	for _, p := range parts {
		switch p.Type {
		case "text":
			all = append(all, p.Text)
		case "file":
			if s.ui.File == nil {
				return "", errNoFile
			}
			text, err := foreign.Ask("Options.File", func() (string, error) {
				return s.ui.File(r, session, File{Name: p.Filename, MediaType: p.MediaType, URL: p.URL})
			})
			if err != nil {
				return "", refused(err)
			}
			all = append(all, text)
		default:
			return "", bad("A message of the user has parts of the types text and file, and no others.")
		}
	}
	return strings.Join(all, "\n"), nil
}

// input makes the input of a text, by Options.Input.
func (s *server[S]) input(r *http.Request, text string) (in orchestrator.Input, err error) {
	if s.o.Input == nil {
		return orchestrator.Input{Text: text}, nil
	}
	body, err := json.Marshal(map[string]string{"message": text})
	if err != nil {
		return in, err
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	in, err = foreign.Ask("Options.Input", func() (orchestrator.Input, error) { return s.o.Input(r) })
	if err != nil {
		return in, refused(err)
	}
	return in, nil
}

// refused returns what a page is told of an error of File or Input.
func refused(err error) error {
	if isRefusal(err) || foreign.PanicOf(err) != nil {
		return err
	}
	return bad("The message is not taken.")
}
