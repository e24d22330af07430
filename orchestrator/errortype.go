package orchestrator

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/store"
)

// errorTypes name the errors for log lines, spans and metrics. The first that fits counts.
var errorTypes = []struct {
	err  error
	name string
}{
	{ErrTurnTimeout, "ErrTurnTimeout"},
	{ErrIntentTimeout, "ErrIntentTimeout"},
	{ErrAbandoned, "ErrAbandoned"},
	{ErrShuttingDown, "ErrShuttingDown"},
	{lock.ErrHandoff, "ErrHandoff"},
	{lock.ErrFenced, "ErrFenced"},
	{lock.ErrExpired, "ErrExpired"},
	{lock.ErrLost, "ErrLost"},
	{errStuck, "stuck"},
	{ErrBusy, "ErrBusy"},
	{ErrUnavailable, "ErrUnavailable"},
	{ErrOwed, "ErrOwed"},
	{ErrInterrupted, "ErrInterrupted"},
	{ErrParked, "ErrParked"},
	{ErrSuspended, "ErrSuspended"},
	{ErrNothingToResume, "ErrNothingToResume"},
	{ErrRequestReused, "ErrRequestReused"},
	{ErrMaxIterations, "ErrMaxIterations"},
	{ErrMerge, "ErrMerge"},
	{ErrReentrant, "ErrReentrant"},
	{ErrTooManyStuck, "ErrTooManyStuck"},
	{ErrNoLedger, "ErrNoLedger"},
	{ErrNoSession, "ErrNoSession"},
	{ErrQueueFull, "ErrQueueFull"},
	{ErrNoInbox, "ErrNoInbox"},
	{ErrNoDefinition, "ErrNoDefinition"},
	{ledger.ErrInDoubt, "ErrInDoubt"},
	{ledger.ErrChanged, "ErrChanged"},
	{ledger.ErrRepeated, "ErrRepeated"},
	{ledger.ErrSkipped, "ErrSkipped"},
	{ledger.ErrRedacted, "ErrRedacted"},
	{store.ErrRefused, "ErrRefused"},
	{errNotSaved, "not saved"},
	{errNotLogged, "not logged"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
	{context.Canceled, "context.Canceled"},
}

// errorType names the kind of an error. There are few kinds, and none holds what a user said. An error of a function of
// the bot is named by its Go type.
func errorType(err error) string {
	err = logtext.Shield(err)
	if e, ok := errors.AsType[*Error](err); ok {
		err = e.Err
	}
	for _, t := range errorTypes {
		if errors.Is(err, t.err) {
			return t.name
		}
	}
	return logtext.Type(err)
}

// cleanText replaces the bytes that no store accepts.
func cleanText(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "?"), "\x00", "?")
}

// errorText returns the text of an error, as long as a stored run may have it.
func errorText(err error) string {
	text := cleanText(logtext.Text(err))
	if len(text) > snapshot.MaxError {
		text = strings.ToValidUTF8(text[:snapshot.MaxError], "")
	}
	return text
}
