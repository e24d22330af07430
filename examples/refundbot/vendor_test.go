package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/examples/refundbot/internal/refundtest"
	"github.com/holdfast-go/holdfast/examples/refundbot/model"
	"github.com/holdfast-go/holdfast/examples/refundbot/stores"
	"github.com/holdfast-go/holdfast/internal/test/modeltest"
)

// With a key the model of a vendor is asked: here a server on loopback that speaks its format. A key that is wrong is
// one line, which names the variable and not the key.
func TestVendors(t *testing.T) {
	t.Parallel()
	for base, wire := range map[string]modeltest.Wire{
		"OPENAI_BASE_URL": modeltest.Chat, "ANTHROPIC_BASE_URL": modeltest.Messages,
	} {
		t.Run(wire.Key, func(t *testing.T) {
			t.Parallel()
			ask := func(h http.Handler) (*process, refundtest.Provider) {
				web, pays := httptest.NewServer(h), refundtest.StartProvider(t)
				t.Cleanup(web.Close)
				env := environment(stores.Config{}, "PROVIDER_URL="+pays.URL, wire.Key+"=sk-secret", base+"="+web.URL)
				return start(t, env, "-demo=false", "-addr", "127.0.0.1:0", "-data", t.TempDir()), pays
			}
			p, pays := ask(wire.Serve(new(model.Scripted)))
			if said := p.client().say(t, "ada", "1", "I want a refund for A-1007"); said.Reply.Receipt == "" {
				t.Errorf("%+v", said)
			}
			p.client().say(t, "ada", "2", "I want a refund for A-1042")
			path, sum := p.client().question(t, "ada")
			p.client().must(t, http.StatusOK, http.MethodPost, path, "", answerOf(true, sum), nil)
			p.client().told(t, "ada", "The refund of 250.00 for order A-1042 is paid.")
			pays.WantPaid(t, "A-1007", "A-1042")

			p, _ = ask(wire.Handler(func(modeltest.Asked) modeltest.Answer {
				fault := wire.Fault("authentication_error", "sk-secret")
				return modeltest.Answer{Status: http.StatusUnauthorized, Body: fault}
			}))
			p.client().must(t, http.StatusBadGateway, http.MethodPost, "/sessions/ada/turns", "1",
				map[string]string{"message": "Hello"}, nil)
			said, lines := p.stderr.String(), 0
			for line := range strings.Lines(said) {
				if strings.Contains(line, "the key in "+wire.Key+" is refused") {
					lines++
				}
			}
			if lines != 1 || strings.Contains(said, "sk-secret") {
				t.Errorf("it says\n%s", said)
			}
		})
	}
}
