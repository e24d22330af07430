package orchestrator_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/oncehttp"
)

// A call of a model that is recorded on a server comes back after a crash byte for byte, whatever a database makes of
// JSON: PostgreSQL has its own numbers, orders members, and takes no U+0000.
func TestRecordedCalls(t *testing.T) {
	bodies := map[string]string{
		"JSON": `{"b":1.50, "a":1e400, "a":"<&>\u0000"}`, "stream": "data: {\"choices\":[]}\n\ndata: [DONE]\n\n",
		"odd characters": "héllo \u2028 \ufffd 🎈 \\u0000 \x7f\r\n\t", "no UTF-8": "\xff\xfe", "U+0000": "a\x00b", "empty": "",
		"almost too large": strings.Repeat("text 🎈", ledger.MaxDocument/10),
	}
	for name, open := range map[string]func(*testing.T) bookkeeper{
		"sqlite": onSQLiteLedger, "postgres": onPostgresLedger,
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t).ledger
			for what, body := range bodies {
				asked := 0
				model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					asked++
					_, _ = io.WriteString(w, body)
				}))
				s := newShop()
				s.Ledger = l
				client := &http.Client{Transport: oncehttp.New(nil).Transport(model.Client().Transport)}
				ask := func(ctx context.Context, t *Turn) error {
					ctx = oncehttp.With(ctx, t, "model")
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, model.URL, nil)
					if err != nil {
						return err
					}
					res, err := client.Do(req)
					if err != nil {
						return err
					}
					defer res.Body.Close()
					text, err := io.ReadAll(res.Body)
					if string(text) == body {
						t.State.Said = []string{what}
					}
					return err
				}
				s.Crash(t, func(die func()) Def {
					return single(func(ctx context.Context, t *Turn) error { defer die(); return ask(ctx, t) })
				}, Input{})
				res, err := s.Start(t, single(ask), Options{}).Resume(t.Context(), "s", nil)
				if err != nil {
					t.Fatal(err)
				}
				wantSaid(t, res.State, what)
				if asked != 1 {
					t.Errorf("%s: asked %d times", what, asked)
				}
				model.Close()
			}
		})
	}
}
