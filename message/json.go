package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// version is the version of the stored form. Raise it for a change that today's decoder would misread or lose.
const version = 1

var (
	// ErrUnknownKind says that a block has a kind that this version of the package does not know. The error names the
	// kind. All other blocks have been read, so the caller may go on with them.
	ErrUnknownKind = errors.New("unknown block kind")

	// ErrUnknownVersion says that this version of the package does not know the form of a stored message.
	ErrUnknownVersion = errors.New("unknown version of message")
)

type stored struct {
	Version   int               `json:"v"`
	ID        string            `json:"id,omitempty"`
	Role      string            `json:"role"`
	Turn      int               `json:"turn"`
	CreatedAt time.Time         `json:"created_at,omitzero"`
	Blocks    []json.RawMessage `json:"blocks"`
}

// MarshalJSON returns the stored form. Blocks of an unknown kind are written as they were read.
func (m Message) MarshalJSON() ([]byte, error) {
	doc, err := m.encode()
	if err == nil {
		return doc, nil
	}
	for i, b := range m.Blocks {
		if _, err := b.MarshalJSON(); err != nil {
			return nil, fmt.Errorf("message %q: block %d: %w", m.ID, i, err)
		}
	}
	return nil, err
}

// encode is MarshalJSON, whose errors do not name the block.
func (m Message) encode() (doc []byte, err error) {
	blocks := make([]any, len(m.Blocks))
	for i, b := range m.Blocks {
		if blocks[i], err = b.form(); err != nil {
			return nil, err
		}
	}
	// It has the members of stored. Blocks that were encoded before would be scanned once more here.
	return json.Marshal(struct {
		Version   int       `json:"v"`
		ID        string    `json:"id,omitempty"`
		Role      string    `json:"role"`
		Turn      int       `json:"turn"`
		CreatedAt time.Time `json:"created_at,omitzero"`
		Blocks    []any     `json:"blocks"`
	}{version, m.ID, m.Role, m.Turn, wholeMinutes(m.CreatedAt), blocks})
}

// UnmarshalJSON reads the stored form. After ErrUnknownKind, m is complete: encoding m again keeps the unknown blocks.
// After any other error, m is unchanged.
func (m *Message) UnmarshalJSON(doc []byte) error {
	if read, ok := readMessage(doc); ok {
		*m = read
		return nil
	}
	return m.readAny(doc)
}

// readAny is UnmarshalJSON for all forms.
func (m *Message) readAny(doc []byte) error {
	var form struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(doc, &form); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	if form.Version != version {
		return fmt.Errorf("%w: %d", ErrUnknownVersion, form.Version)
	}
	var s stored
	if err := json.Unmarshal(doc, &s); err != nil {
		return fmt.Errorf("message %q: %w", s.ID, err)
	}
	blocks, err := readBlocks(s.Blocks)
	if err != nil {
		err = fmt.Errorf("message %q: %w", s.ID, err)
	}
	if err == nil || errors.Is(err, ErrUnknownKind) {
		*m = Message{s.ID, s.Role, s.Turn, sameEverywhere(s.CreatedAt), blocks}
	}
	return err
}

// readBlocks reads all blocks. If a block has an unknown kind, readBlocks goes on and returns the first such error. Any
// other error ends it.
func readBlocks(docs []json.RawMessage) (blocks []Block, unknown error) {
	for i, doc := range docs {
		var b Block
		if err := b.UnmarshalJSON(doc); err != nil {
			err = fmt.Errorf("block %d: %w", i, err)
			if !errors.Is(err, ErrUnknownKind) {
				return nil, err
			}
			if unknown == nil {
				unknown = err
			}
		}
		blocks = append(blocks, b)
	}
	return blocks, unknown
}

type storedText struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

type storedReasoning struct {
	storedText
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

type storedCall struct {
	Kind string `json:"kind"`
	Call
}

type storedResult struct {
	Kind string `json:"kind"`
	Result
	Content string `json:"content"`
}

// MarshalJSON returns the stored form. It has no version: the message carries the version. If Text or Raw does not fit
// the kind, MarshalJSON returns an error.
func (b Block) MarshalJSON() ([]byte, error) {
	form, err := b.form()
	if err != nil {
		return nil, err
	}
	if raw, ok := form.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(form)
}

// form returns what encoding/json writes as the stored form.
func (b Block) form() (any, error) {
	call, isCall := b.Call()
	result, isResult := b.Result()
	switch {
	case b.Kind == KindText && len(b.Raw) == 0:
		return storedText{b.Kind, b.Text}, nil
	case b.Kind == KindReasoning:
		return storedReasoning{storedText{b.Kind, b.Text}, b.Raw}, nil
	case isCall && b.Text == "":
		return storedCall{b.Kind, call}, nil
	case isResult:
		return storedResult{b.Kind, result, b.Text}, nil
	case known(b.Kind):
		return nil, fmt.Errorf("text or raw JSON is not that of a %s block", b.Kind)
	}
	var read Block
	if err := read.UnmarshalJSON(b.Raw); !errors.Is(err, ErrUnknownKind) || read.Kind != b.Kind || b.Text != "" {
		return nil, unknownKind(b.Kind)
	}
	return b.Raw, nil
}

// UnmarshalJSON reads the stored form. After ErrUnknownKind, Kind and Raw are set. After any other error, b is
// unchanged.
func (b *Block) UnmarshalJSON(doc []byte) error {
	var form *struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(doc, &form); err != nil {
		return err
	}
	if form == nil {
		return errors.New("null is not a block")
	}
	if !known(form.Kind) {
		*b = Block{Kind: form.Kind, Raw: slices.Clone(doc)}
		return unknownKind(form.Kind)
	}
	read, err := readBlock(form.Kind, doc)
	if err != nil {
		return fmt.Errorf("%s: %w", form.Kind, err)
	}
	*b = read
	return nil
}

func readBlock(kind string, doc []byte) (Block, error) {
	switch kind {
	case KindToolCall:
		var s storedCall
		err := json.Unmarshal(doc, &s)
		return ToolCall(s.ID, s.Name, s.Args), err
	case KindToolResult:
		var s storedResult
		err := json.Unmarshal(doc, &s)
		return ToolResult(s.CallID, s.Content, s.IsError), err
	case KindReasoning:
		var s storedReasoning
		err := json.Unmarshal(doc, &s)
		return Reasoning(s.Text, s.Metadata), err
	}
	var s storedText
	err := json.Unmarshal(doc, &s)
	return Text(s.Text), err
}

func known(kind string) bool {
	switch kind {
	case KindText, KindReasoning, KindToolCall, KindToolResult:
		return true
	}
	return false
}

func unknownKind(kind string) error { return fmt.Errorf("%w %q", ErrUnknownKind, kind) }

// wholeMinutes returns the same instant in a zone that RFC 3339 can write: zones of the 19th century count seconds.
func wholeMinutes(t time.Time) time.Time {
	_, offset := t.Zone()
	if offset%60 == 0 {
		return t
	}
	return t.In(time.FixedZone("", offset-offset%60))
}

// sameEverywhere replaces the zone of a decoded time by its offset. encoding/json returns time.Local instead, if the
// offset happens to be the reader's own.
func sameEverywhere(t time.Time) time.Time {
	_, offset := t.Zone()
	if offset == 0 {
		return t.UTC()
	}
	return t.In(time.FixedZone("", offset))
}
