package tell_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/test/npm"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/turnhttp/agui"
	"github.com/holdfast-go/holdfast/turnhttp/uichat"
)

// An answer is sent by an encoder.
type answer struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Body     string `json:"body"`
}

// A reading is an answer as a library reads it.
type reading struct {
	Name, Protocol, Error, Outcome      string
	Texts, Tools, Questions, Interrupts []string
}

// The libraries of front ends accept what the encoders send. What is not void is the reply, and nothing else.
func TestFrontEndLibraries(t *testing.T) {
	cmd := npm.Node(t, "testdata/frontends/check.mjs")
	var answers []answer
	byName := make(map[string]scene)
	for _, s := range scenes {
		byName[s.name] = s
		ui, _ := encoded(t, uichat.Write, s.show())
		agui, _ := encoded(t, agui.Write, s.show())
		answers = append(answers, answer{s.name, "ui", ui.Body.String()}, answer{s.name, "agui", agui.Body.String()})
	}
	in, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var told struct {
		Versions string
		Results  []reading
	}
	if err := json.Unmarshal(out, &told); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Log(told.Versions)
	for _, r := range told.Results {
		r.check(t, byName[r.Name])
	}
	if len(told.Results) != len(answers) {
		t.Errorf("%d of %d answers were read", len(told.Results), len(answers))
	}
}

func (r reading) check(t *testing.T, s scene) {
	t.Helper()
	p := orchestrator.Public(s.err)
	fails := s.err != nil && p.Status != 202 && (p.Type != "stopped" || r.Protocol == "agui")
	if want := map[bool]string{true: p.Text}[fails]; r.Error != want {
		t.Errorf("%s, %s: the error is %q, want %q", r.Name, r.Protocol, r.Error, want)
	}
	if text := strings.Join(r.Texts, "|"); s.reply.Text != "" && !strings.HasSuffix(text, s.reply.Text) {
		t.Errorf("%s, %s: the page shows %q, want %q", r.Name, r.Protocol, text, s.reply.Text)
	}
	if s.err != nil && len(r.Texts) > 0 {
		t.Errorf("%s, %s: the page shows %q of a turn that has not settled", r.Name, r.Protocol, r.Texts)
	}
	var asked []string
	for _, q := range s.reply.Questions {
		asked = append(asked, q.ID)
	}
	if r.Protocol == "ui" && !slices.Equal(r.Questions, asked) {
		t.Errorf("%s: the page has the questions %q, want %q", r.Name, r.Questions, asked)
	}
	if r.Protocol != "agui" || fails {
		return
	}
	outcome := "success"
	switch {
	case p.Status == 202:
		outcome, asked = "interrupt", []string{"e-1", "e-2"}
	case asked != nil:
		outcome = "interrupt"
	}
	if r.Outcome != outcome || !slices.Equal(r.Interrupts, asked) {
		t.Errorf("%s: the outcome is %q %q, want %q %q", r.Name, r.Outcome, r.Interrupts, outcome, asked)
	}
}
