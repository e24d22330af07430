package main

import (
	"flag"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// commands are all words of the command line, as the help lists them.
func commands() []command {
	return []command{
		{name: "runs", help: "runs in flight, and how they stand", flags: runFlags, run: runs},
		{name: "sessions", help: "sessions with a settled turn", flags: sessionFlags, run: sessions},
		{name: "show", args: "ID", help: "a session and its turns, or a workflow run and its journal", run: show},
		{name: "why", args: "ID", help: "why a session stands as it does, and what can be done", run: why},
		{name: "effects", help: "effects that are open; with -all, all of a session", flags: effectFlags, run: effects},
		{name: "questions", help: "what people are asked", run: questions},
		{name: "workflows", help: "runs of workflows, the newest first", flags: workflowFlags, run: workflows},
		{name: "processes", help: "which processes are alive, and what they own", run: processes},
		{name: "tail", args: "ID", help: "follow the events of a session", flags: tailFlags, run: tail},

		{name: "unpark", args: "ID…", help: "make a parked run due, with all its attempts", acts: true, run: unpark},
		{name: "due", args: "ID…", help: "try a run that waits again at once", acts: true, run: due},
		{name: "stop", args: "ID", help: "ask an agent's run to stop", acts: true, flags: stopFlags, run: stop},
		{
			name: "abandon", args: "ID", help: "end a run without a turn (-yes)", acts: true, flags: abandonFlags,
			run: abandon,
		},
		{name: "delete", args: "ID", help: "remove a session with all its turns (-yes)", acts: true, run: remove},
		{
			name: "skip", args: "ID", help: "give the oldest owed reply up (-yes)", acts: true, flags: abandonFlags,
			run: skip,
		},
		{
			name: "answer", args: "ID [QUESTION]", acts: true, flags: answerFlags, run: answer,
			help: "answer for an effect (-landed, -not-landed, -skip), or a question of a session (-result JSON)",
		},

		{
			name: "signal", args: "ID EVENT-NAME [JSON]", help: "send an event to a workflow run", acts: true,
			flags: signalFlags, run: sendSignal,
		},
		{name: "cancel", args: "ID", help: "end a workflow run and its children (-yes)", acts: true, run: cancel},
		{name: "pause", args: "ID", help: "hold a workflow run", acts: true, run: pause},
		{name: "resume", args: "ID", help: "let a held workflow run go on", acts: true, run: resume},
		{
			name: "rewind", args: "ID STEP-NAME", help: "take a workflow run back to before a step (-yes)", acts: true,
			run: rewind,
		},

		{name: "check", help: "whether the schema, and a Redis, are fit for this command's version", run: check},
		{name: "migrate", help: "bring the schema up to date", acts: true, run: migrate},
		{name: "sweep", help: "retire what is older than its age, once", acts: true, flags: sweepFlags, run: sweep},
		{
			name: "raise", help: "after a failover or a restored backup: end all owners (-yes)", acts: true,
			flags: raiseFlags, run: raise,
		},
		{name: "doctor", help: "what is wrong with the servers and with what they hold", run: doctor},
		{name: "completion", args: "bash|zsh|fish", help: "a script for your shell", bare: true, run: completion},
	}
}

func runFlags(f *flag.FlagSet, x *extras) {
	f.StringVar(&x.status, "status", "", "only runs of this `STATUS`: running, waiting, suspended, parked")
	f.StringVar(&x.after, "after", "", "go on behind this `SESSION`; needs -bot")
}

func sessionFlags(f *flag.FlagSet, x *extras) {
	f.StringVar(&x.session, "like", "", "only sessions that begin with this `TEXT`")
	f.StringVar(&x.label, "label", "", "only sessions with this `LABEL`, as user:ann or waiting of an agent")
	f.BoolVar(&x.owing, "owing", false, "only sessions that owe a reply")
	f.StringVar(&x.after, "after", "", "go on behind this `SESSION`; needs -bot")
}

func effectFlags(f *flag.FlagSet, x *extras) {
	f.StringVar(&x.session, "session", "", "only of this `SESSION`")
	f.BoolVar(&x.all, "all", false, "not only what is open; needs -session")
}

func workflowFlags(f *flag.FlagSet, x *extras) {
	f.StringVar(&x.status, "status", "", "only runs of this `STATUS`: running, completed, failed, cancelled")
	f.StringVar(&x.session, "workflow", "", "only runs of this `WORKFLOW`")
	f.StringVar(&x.after, "after", "", "go on behind this `RUN`")
}

func tailFlags(f *flag.FlagSet, x *extras) {
	f.Int64Var(&x.from, "from", -1, "begin behind the event with this `NUMBER`; -1 is the newest turn")
}

func stopFlags(f *flag.FlagSet, x *extras) {
	f.StringVar(&x.run, "run", "", "only the run with this `ID`")
	f.StringVar(&x.reason, "reason", "stopped by an operator", "what the session is told")
}

func abandonFlags(f *flag.FlagSet, x *extras) {
	f.StringVar(&x.run, "run", "", "only the run with this `ID`")
}

func answerFlags(f *flag.FlagSet, x *extras) {
	f.BoolVar(&x.landed, "landed", false, "the effect happened; -result says what it brought")
	f.BoolVar(&x.notLanded, "not-landed", false, "the effect did not happen, and may be tried again")
	f.BoolVar(&x.skip, "skip", false, "the effect shall not happen")
	f.BoolVar(&x.sure, "sure", false, "no process is at work on the effect: its run is lost")
	f.StringVar(&x.result, "result", "", "`JSON` of the result, or of the answer")
	f.StringVar(&x.sum, "sum", "", "`SUM` of the question as it was shown; without it, as it is now")
}

func signalFlags(f *flag.FlagSet, x *extras) {
	f.StringVar(&x.id, "id", "", "`ID` of the signal: the same one again counts once")
}

func sweepFlags(f *flag.FlagSet, x *extras) {
	f.DurationVar(&x.doubt, "older", 0, "retire sessions idle for `AGE`; 0 retires none that have settled")
}

func raiseFlags(f *flag.FlagSet, x *extras) {
	f.StringVar(&x.lost, "lost", "", "since when writes are lost, as `2026-11-28T15:04:05Z`; without it nobody knows")
	f.DurationVar(&x.doubt, "doubt", 24*time.Hour, "for how long effects that may have happened are in doubt")
}

// help prints what the program can do.
func (p *program) help(global *flag.FlagSet) {
	fmt.Fprint(p.out, `holdfast shows what bots and workflows are doing, and does what a person on call has to.

    holdfast -db URL [-redis URL] COMMAND [FLAGS] [ID]
    holdfast -sqlite FILE COMMAND [FLAGS] [ID]

Begin with: holdfast runs, holdfast why ID, holdfast doctor.

Commands:
`)
	w := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, c := range commands() {
		fmt.Fprintf(w, "  %s\t%s\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	}
	_ = w.Flush()
	fmt.Fprint(p.out, "\nFlags of all commands; holdfast COMMAND -h has the others:\n")
	global.SetOutput(p.out)
	global.PrintDefaults()
	fmt.Fprint(p.out, "\nExit codes:\n")
	for _, c := range codes {
		fmt.Fprintf(p.out, "  %d  %s\n", c.code, c.means)
	}
}

// helpOn prints what one command takes.
func (p *program) helpOn(c *command, own *flag.FlagSet) {
	fmt.Fprintf(p.out, "holdfast %s: %s\n\n", strings.TrimSpace(c.name+" "+c.args), c.help)
	own.SetOutput(p.out)
	own.PrintDefaults()
}
