package main

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/approval"
	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/lock"
	"github.com/holdfast-go/holdfast/migrations"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/orchestrator"
	"github.com/holdfast-go/holdfast/redis"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/workflow"
)

// The exit codes.
const (
	exitDone = iota
	exitFailed
	exitUsage
	exitNotFound
	exitNothing
	exitHeld
	exitSchema
	exitAway
	exitFindings
)

// codes says what each exit code means.
var codes = []struct {
	code  int
	means string
}{
	{exitDone, "done, or shown"},
	{exitFailed, "it has failed; the line says why. Look before you try again"},
	{exitUsage, "the command line is wrong, or -yes is missing"},
	{exitNotFound, "no bot has the session, or there is no such run, effect, question or step"},
	{exitNothing, "there was nothing to do: no run was parked, say, or another answer was first"},
	{exitHeld, "a living process owns it"},
	{exitSchema, "the database is none of Holdfast's, or its schema is older or newer than the command"},
	{exitAway, "a server does not answer, or refuses: try again later"},
	{exitFindings, "doctor has found something"},
}

// errNothing says that an act has found nothing to do.
var errNothing = errors.New("nothing to do")

// errFindings says that doctor has found something.
var errFindings = errors.New("findings")

// errNotOurs says that a database has no tables of Holdfast.
var errNotOurs = errors.New("the database has no tables of Holdfast: is it another one, or another -prefix? " +
	"A new one gets them by holdfast migrate")

// verdicts are errors and their exit codes, the first that fits.
var verdicts = []struct {
	err  error
	code int
}{
	{errUsage, exitUsage},
	{errFindings, exitFindings},
	{errNothing, exitNothing},
	{ops.ErrNotFound, exitNotFound},
	{workflow.ErrNotFound, exitNotFound},
	{checkpoint.ErrNotFound, exitNotFound},
	{ledger.ErrNotFound, exitNotFound},
	{approval.ErrNotAsked, exitNotFound},
	{approval.ErrAnswered, exitNothing},
	{approval.ErrChanged, exitNothing},
	{approval.ErrExpired, exitNothing},
	{approval.ErrInvalid, exitUsage},
	{ledger.ErrAnswered, exitNothing},
	{stream.ErrGone, exitNothing},
	{lock.ErrHeld, exitHeld},
	{orchestrator.ErrBusy, exitHeld},
	{errNotOurs, exitSchema},
	{migrations.ErrBehind, exitSchema},
	{migrations.ErrNewer, exitSchema},
	{store.ErrSchema, exitSchema},
	{redis.ErrUnfit, exitSchema},
	{ops.ErrNoStore, exitUsage},
	{store.ErrInvalid, exitUsage},
	{orchestrator.ErrNoStream, exitUsage},
	{store.ErrRefused, exitAway},
	{orchestrator.ErrUnavailable, exitAway},
	{context.DeadlineExceeded, exitAway},
	{context.Canceled, exitFailed},
}

// explain returns the exit code of an error, and one line that says why.
func explain(err error) (code int, line string) {
	if err == nil {
		return exitDone, ""
	}
	line = strings.Join(strings.Fields(err.Error()), " ")
	if _, ok := errors.AsType[*orchestrator.InputError](err); ok {
		return exitUsage, line
	}
	for _, v := range verdicts {
		if errors.Is(err, v.err) {
			return v.code, line
		}
	}
	return exitFailed, line
}
