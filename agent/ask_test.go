package agent_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/agent"
	"github.com/holdfast-go/holdfast/internal/test/agenttest"
	"github.com/holdfast-go/holdfast/turnhttp"
)

// What a tool asks is a question over HTTP, also for a user who approves nothing. Its answer is JSON that fits the
// form.
func TestAskOverHTTP(t *testing.T) {
	w := new(agenttest.Asker)
	d := w.Definition()
	d.Model = answers(call("c1", "idem", `{}`))
	a := newAgent(t, d, agent.InMemory())
	h := agent.Handler(a, turnhttp.Options[agent.State[none]]{
		Authorize: turnhttp.Allow("ann", turnhttp.ActionTurn, turnhttp.ActionClient),
	})
	sent(t, h, "", "POST", "/sessions/s/turns", `{"message":"book"}`)
	for _, round := range [][]struct {
		body string
		code int
		want string
	}{
		{
			{`{"approved":true}`, 422, ""},
			{`{"approved":true,"result":{"seat":"1"}}`, 422, ""},
			{`{"result":{"seat":"12AB"}}`, 422, "does not fit"},
			{`{"result":"12A"}`, 422, "does not fit"},
			{`{"result":null}`, 422, ""},
			{`{"result":{"seat":"12A"}}`, 200, `"status":"paused"`},
		},
		{
			{`{"result":{"seat":"12A"}}`, 422, ""},
			{`{}`, 422, ""},
			{`{"failed":true}`, 200, `no seat: ann says`},
		},
	} {
		var all struct {
			Questions []struct {
				ID, Sum string
				Shown   struct{ Kind, Tool, Call, Asks string }
			}
		}
		doc := sent(t, h, "", "GET", "/sessions/s/questions", "").Body.String()
		if err := json.Unmarshal([]byte(doc), &all); err != nil || len(all.Questions) != 1 {
			t.Fatal(doc, err)
		}
		q := all.Questions[0]
		if q.Shown.Kind != "input" || q.Shown.Tool != "idem" || q.Shown.Call != "c1" || q.Shown.Asks == "" {
			t.Error(doc)
		}
		for _, c := range round {
			body := fmt.Sprintf(`{"sum":%q,"answer":%s}`, q.Sum, c.body)
			res := sent(t, h, "", "POST", "/sessions/s/questions/"+q.ID, body)
			if got := res.Body.String(); res.Code != c.code || !strings.Contains(got, c.want) {
				t.Errorf("%s: %d %s", c.body, res.Code, got)
			}
		}
	}
}
