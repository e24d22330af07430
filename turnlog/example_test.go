package turnlog_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/turnlog"
)

// A model answers from a script, and counts how often it is asked.
type model struct {
	script []answer
	asked  int
}

// An answer is the state of llm-complete in these examples: the text for the user, or else a tool to call.
type answer struct {
	Text string `json:"text,omitempty"`
	Tool string `json:"tool,omitempty"`
}

func (m *model) ask(messages int) answer {
	fmt.Printf("  the model is asked with %d messages\n", messages)
	m.asked++
	return m.script[m.asked-1]
}

// recoveries are what a program does with a turn that was cut off: a function for each recovery, on the same list.
type recoveries struct {
	send  func(settled turnlog.SettledState)
	goOn  func(answered answer)
	start func(started turnlog.StartedState)
}

// recover calls the function that Judge proposes.
func (r recoveries) recover(log turnlog.Log, run string) error {
	entries, err := log.Restore(context.Background(), run)
	if err != nil {
		return err
	}
	var settled turnlog.SettledState
	var answered answer
	var started turnlog.StartedState
	for _, e := range entries { // the last of each phase
		switch e.Phase {
		case turnlog.Settled:
			err = json.Unmarshal(e.State, &settled)
		case turnlog.LLMComplete:
			err = json.Unmarshal(e.State, &answered)
		case turnlog.Started:
			err = json.Unmarshal(e.State, &started)
		}
		if err != nil {
			return err
		}
	}
	switch turnlog.Judge(entries) {
	case turnlog.Outbound:
		r.send(settled)
	case turnlog.GoOn:
		r.goOn(answered)
	case turnlog.StartNew:
		r.start(started)
	case turnlog.Nothing:
		fmt.Println("  nothing to restore")
	}
	return nil
}

// shop returns the recoveries of a shop. Its model wants an order looked up, and then answers.
func shop(m *model) recoveries {
	tool := func(a answer) {
		fmt.Printf("  the tool %q is called\n", a.Tool)
		fmt.Printf("  the reply is %q\n", m.ask(3).Text)
	}
	return recoveries{
		send: func(s turnlog.SettledState) { fmt.Printf("  the reply is %s\n", s.Respond) },
		goOn: tool,
		start: func(s turnlog.StartedState) {
			tool(m.ask(len(s.Messages)))
		},
	}
}

const (
	input      = `{"actorId":"shop","slotKey":"4:shop/s1","messages":[{"role":"user","content":"Where is it?"}],"expiresAt":null}`
	wantsTool  = `{"tool":"look up"}`
	settledDoc = `{"turnState":"complete","respond":"It is on its way.","reason":""}`
)

// Recovery 1: the turn has settled. Only the reply is sent again: no model is asked, no tool is called.
func ExampleJudge_settled() {
	m := &model{}
	log := recorded(
		phase("r1", turnlog.Started, 0, input),
		phase("r1", turnlog.LLMComplete, 900, `{"text":"It is on its way."}`),
		phase("r1", turnlog.Settled, 950, settledDoc),
	)
	if err := shop(m).recover(log, "r1"); err != nil {
		fmt.Println(err)
	}
	fmt.Println("asked:", m.asked)
	// Output:
	//   the reply is "It is on its way."
	// asked: 0
}

// Recovery 2: the model has answered. Its answer is not asked for again: the turn goes on at the tool.
func ExampleJudge_answered() {
	m := &model{script: []answer{{Text: "It is on its way."}}}
	log := recorded(phase("r1", turnlog.Started, 0, input), phase("r1", turnlog.LLMComplete, 900, wantsTool))
	if err := shop(m).recover(log, "r1"); err != nil {
		fmt.Println(err)
	}
	fmt.Println("asked:", m.asked)
	// Output:
	//   the tool "look up" is called
	//   the model is asked with 3 messages
	//   the reply is "It is on its way."
	// asked: 1
}

// Recovery 3: nothing of consequence has happened. The turn starts over from the stored messages.
func ExampleJudge_started() {
	m := &model{script: []answer{{Tool: "look up"}, {Text: "It is on its way."}}}
	log := recorded(phase("r1", turnlog.Started, 0, input))
	if err := shop(m).recover(log, "r1"); err != nil {
		fmt.Println(err)
	}
	fmt.Println("asked:", m.asked)
	// Output:
	//   the model is asked with 1 messages
	//   the tool "look up" is called
	//   the model is asked with 3 messages
	//   the reply is "It is on its way."
	// asked: 2
}

// A program need not do what Judge proposes. This one works on the same list, and asks a person about each turn that
// has begun to act.
func ExampleJudge() {
	m := &model{}
	careful := shop(m)
	careful.goOn = func(a answer) { fmt.Printf("  a person is asked: has %q been done?\n", a.Tool) }
	log := recorded(phase("r1", turnlog.Started, 0, input), phase("r1", turnlog.LLMComplete, 900, wantsTool))
	for _, run := range []string{"r1", "r2"} {
		fmt.Println(run)
		if err := careful.recover(log, run); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("asked:", m.asked)
	// Output:
	// r1
	//   a person is asked: has "look up" been done?
	// r2
	//   nothing to restore
	// asked: 0
}

// recorded returns a log with these entries.
func recorded(all ...turnlog.Entry) turnlog.Log {
	log := new(turnlog.Memory)
	for _, e := range all {
		if err := log.Record(context.Background(), e); err != nil {
			fmt.Println(err)
		}
	}
	return log
}
