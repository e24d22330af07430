package workflowhttp_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/workflow"
	"github.com/holdfast-go/holdfast/workflow/workflowhttp"
)

// The lines with curl in docs/workflows.md do what it says.
func TestDocs(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("the docs need curl: %v", err)
	}
	doc, err := os.ReadFile("../../docs/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "## Over HTTP\n")
	section, _, _ = strings.Cut(section, "\n## ")
	m := new(workflow.Memory)
	url := serve(t, workflowhttp.New(m, &workflowhttp.Options{Authorize: anyone, Subscriptions: m})) + "/v1/"
	wants := []string{
		`"new":true`, `"receipt":"kept"`, `"Order":"A-1042"`, `"steps":[`, "applied", "applied", "applied", `"cancelled":1`,
		`"pattern":"user.*"`, `"new":true`,
	}
	run := ""
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "curl ") {
			continue
		}
		if len(wants) == 0 {
			t.Fatalf("the test does not know what this says: %s", line)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Env = append(os.Environ(), "URL="+url+"workflows", "TOPICS="+url+"topics", "RUN="+run)
		said, err := cmd.Output()
		if err != nil || !strings.Contains(string(said), wants[0]) {
			t.Errorf("%ssays %s, %v, want %s", line, said, err, wants[0])
		}
		if run == "" {
			run = decode[struct{ ID string }](t, said).ID
		}
		wants = wants[1:]
	}
	if len(wants) > 0 {
		t.Errorf("the docs have no line that says %q", wants)
	}
	for _, at := range workflowhttp.Routes() {
		method, path, _ := strings.Cut(at, " /")
		if last := path[strings.LastIndex(path, "/")+1:]; last != "*" &&
			!strings.Contains(section, "/"+last) {
			t.Errorf("the docs have no %s %s", method, path)
		}
	}
}

// What a client sends as JSON is what the store has.
func TestInputsAsTheyAre(t *testing.T) {
	for _, input := range []string{
		`null`, `true`, `""`, `0`, `-0.5e-7`, `12345678901234567890.5`, `"\u00e9\n"`, `[]`, `{}`, `{"a":{"b":[1,null]}}`,
	} {
		m := new(workflow.Memory)
		h := workflowhttp.New(m, &workflowhttp.Options{Authorize: anyone})
		res := post(runs, `{"input":`+input+`}`).to(t.Context(), h)
		id := decode[struct{ ID string }](t, res.Body.Bytes()).ID
		got, err := workflow.NewClient(m).Get(t.Context(), id)
		if err != nil || !workflow.Contains(got.Input, json.RawMessage(input)) ||
			!workflow.Contains(json.RawMessage(input), got.Input) {
			t.Errorf("%s is stored as %s, %v", input, got.Input, err)
		}
		shown := get(runs+"/"+id).to(t.Context(), h)
		doc := decode[struct{ Input json.RawMessage }](t, shown.Body.Bytes())
		if string(doc.Input) != string(got.Input) {
			t.Errorf("%s is shown as %s", input, doc.Input)
		}
	}
}
