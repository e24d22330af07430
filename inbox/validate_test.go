package inbox_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/inbox"
)

var key = inbox.Key{Orchestrator: "bot", Session: "s"}

func item(id string) inbox.Item {
	return inbox.Item{Key: key, Kind: inbox.Answer, ID: id, By: "ada", Shown: "sum", Data: json.RawMessage(`{"n":1}`)}
}

func TestSum(t *testing.T) {
	sum := func(shown any) string {
		got, err := inbox.Sum(shown)
		if err != nil || len(got) != 64 {
			t.Fatal(got, err)
		}
		return got
	}
	type question struct {
		Text  string  `json:"text"`
		Price float64 `json:"price"`
	}
	want := sum(question{"Pay?", 10})
	for _, same := range []any{
		map[string]any{"price": 10, "text": "Pay?"}, json.RawMessage(` {"price": 1e1, "text": "Pay\u003f"} `),
	} {
		if got := sum(same); got != want {
			t.Errorf("the sum of %s differs", same)
		}
	}
	for _, other := range []any{question{"Pay?", 11}, question{"pay?", 10}, nil, "Pay?"} {
		if got := sum(other); got == want {
			t.Errorf("the sum of %v is the same", other)
		}
	}
	for _, none := range []any{func() {}, json.RawMessage("{")} {
		if got, err := inbox.Sum(none); !errors.Is(err, inbox.ErrInvalid) || got != "" {
			t.Errorf("the sum of %T is %q, %v", none, got, err)
		}
	}
}

func TestKnown(t *testing.T) {
	for kind, want := range map[inbox.Kind]bool{inbox.Answer: true, inbox.Input: true, "": false, "Answer": false} {
		if kind.Known() != want {
			t.Errorf("%q is known: %t", kind, !want)
		}
	}
}

func TestValidate(t *testing.T) {
	long := strings.Repeat("x", 512)
	for text, c := range map[string]struct {
		change func(*inbox.Item)
		valid  bool
	}{
		"":                      {func(*inbox.Item) {}, true},
		"no data":               {func(it *inbox.Item) { it.Data = nil }, true},
		"nothing shown":         {func(it *inbox.Item) { it.Shown = "" }, true},
		"the longest names":     {func(it *inbox.Item) { it.Session, it.ID, it.By, it.Shown = long, long, long, long }, true},
		"the largest data":      {func(it *inbox.Item) { it.Data = quoted(inbox.MaxData) }, true},
		"empty orchestrator":    {func(it *inbox.Item) { it.Orchestrator = "" }, false},
		"empty session":         {func(it *inbox.Item) { it.Session = "" }, false},
		`kind ""`:               {func(it *inbox.Item) { it.Kind = "" }, false},
		`kind "wish"`:           {func(it *inbox.Item) { it.Kind = "wish" }, false},
		"empty id":              {func(it *inbox.Item) { it.ID = "" }, false},
		"empty by":              {func(it *inbox.Item) { it.By = "" }, false},
		"by of 513 bytes":       {func(it *inbox.Item) { it.By = long + "x" }, false},
		"shown of 513 bytes":    {func(it *inbox.Item) { it.Shown = long + "x" }, false},
		"data: at byte 0":       {func(it *inbox.Item) { it.Data = json.RawMessage{} }, false},
		"data: 1048577 bytes":   {func(it *inbox.Item) { it.Data = quoted(inbox.MaxData + 1) }, false},
		"id holds U+0000":       {func(it *inbox.Item) { it.ID = "\x00" }, false},
		"session is not UTF-8":  {func(it *inbox.Item) { it.Session = "\xff" }, false},
		"shown holds U+0000":    {func(it *inbox.Item) { it.Shown = "\x00" }, false},
		"orchestrator of 513 b": {func(it *inbox.Item) { it.Orchestrator = long + "x" }, false},
	} {
		it := item("q")
		c.change(&it)
		err := it.Validate()
		if c.valid && err != nil ||
			!c.valid && (!errors.Is(err, inbox.ErrInvalid) || !strings.Contains(err.Error(), text)) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func quoted(size int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
}

func TestIntact(t *testing.T) {
	for reason, change := range map[string]func(*inbox.Item){
		"empty by":              func(it *inbox.Item) { it.By = "" },
		"at byte 1":             func(it *inbox.Item) { it.Data = json.RawMessage("{") },
		"unexpected end of":     func(it *inbox.Item) { it.Data = nil },
		`kind "x"`:              func(it *inbox.Item) { it.Kind = "x" },
		"empty id: remove it":   func(it *inbox.Item) { it.ID = "" },
		"in the year 1:":        func(it *inbox.Item) { it.At = time.Time{} },
		"in the year 10000":     func(it *inbox.Item) { it.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"shown of 513 bytes is": func(it *inbox.Item) { it.Shown = strings.Repeat("x", 513) },
	} {
		it := item("q")
		it.At = time.Now()
		change(&it)
		err := it.Intact()
		damage, is := errors.AsType[*inbox.DamagedError](err)
		if !is || !errors.Is(err, inbox.ErrDamaged) || errors.Is(err, inbox.ErrInvalid) ||
			!strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), inbox.ErrInvalid.Error()) {
			t.Errorf("%s: %v", reason, err)
			continue
		}
		if damage.Key != it.Key || damage.What != string(it.Kind) || damage.ID != it.ID {
			t.Errorf("%s: the error names %+v", reason, damage)
		}
	}
	it := item("q")
	it.At, it.Data = time.Now(), quoted(inbox.MaxData+1)
	if err := it.Intact(); err != nil {
		t.Errorf("an item that outgrew the bound: %v", err)
	}
	for _, it.At = range []time.Time{time.Unix(0, 0).UTC(), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)} {
		if err := it.Intact(); err != nil {
			t.Errorf("posted at %v: %v", it.At, err)
		}
	}
}

func TestValidateItems(t *testing.T) {
	for _, c := range []struct {
		key   inbox.Key
		kind  inbox.Kind
		valid bool
	}{
		{key, inbox.Answer, true},
		{inbox.Key{Orchestrator: "bot"}, inbox.Stop, true},
		{inbox.Key{Session: "s"}, inbox.Stop, false},
		{key, "", false},
		{key, "x", false},
		{inbox.Key{Orchestrator: "bot", Session: "\xff"}, inbox.Answer, false},
	} {
		if err := inbox.ValidateItems(c.key, c.kind); (err == nil) != c.valid ||
			err != nil && !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestValidateRemove(t *testing.T) {
	most := slices.Repeat([]string{"a"}, inbox.MaxIDs)
	for _, c := range []struct {
		key   inbox.Key
		kind  inbox.Kind
		ids   []string
		valid bool
	}{
		{key, "", nil, true},
		{key, inbox.Answer, nil, true},
		{key, inbox.Stop, []string{"a", "a"}, true},
		{key, inbox.Answer, most, true},
		{key, inbox.Answer, append(most, "b"), false},
		{key, "", []string{"a"}, false},
		{key, "x", nil, false},
		{key, inbox.Answer, []string{"a", ""}, false},
		{inbox.Key{Orchestrator: "bot"}, "", nil, false},
		{inbox.Key{Session: "s"}, "", nil, false},
	} {
		err := inbox.ValidateRemove(c.key, c.kind, c.ids)
		if (err == nil) != c.valid || err != nil && !errors.Is(err, inbox.ErrInvalid) {
			t.Errorf("%v, %q, %d ids: %v", c.key, c.kind, len(c.ids), err)
		}
	}
}
