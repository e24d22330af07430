// Package observer logs the events of a bot, without what a user said.
package observer

import (
	"context"
	"log/slog"

	"github.com/holdfast-go/holdfast/orchestrator"
)

func observe(ev orchestrator.Event) {
	switch ev.Kind {
	case orchestrator.IntentEnded, orchestrator.TurnSettled, orchestrator.TurnFailed:
		slog.Info(string(ev.Kind), "session", ev.Session, "intent", ev.Intent, "took_ms", ev.Took.Milliseconds(),
			"tokens", ev.Usage.Input, "failed", ev.Err != nil)
	}
}

func wire[S any](ctx context.Context, bot *orchestrator.Orchestrator[S]) {
	defer bot.Subscribe(observe)()
	_, _ = bot.Execute(ctx, "s", orchestrator.Input{Text: "x"}, &orchestrator.CallOptions{OnEvent: observe})
}

var _ = wire[int]
