// Package mcp offers the tools of MCP servers to an agent. A server is a command, which is spoken to over its standard
// input and output, or an address of streamable HTTP.
//
//	files, err := mcp.Command(ctx, func() *exec.Cmd { return exec.Command("files-server", "/srv") }, nil)
//	if err != nil {
//		return err // the server, and each tool that no agent can offer, by name
//	}
//	defer files.Close()
//	a, err := agent.New(agent.Definition[Memory]{Name: "clerk", Model: model, Tools: files.Tools()}, stores, nil)
//
// # Whom to believe
//
// A server says of a tool whether it only reads, may run again, or destroys something. Nobody checks that. Without
// [Options.Trust] these hints count for nothing: each tool is an effect of the class ledger.Ask, and a person approves
// each call. Options.Classes has the word of the program for a tool. It stands above the hints.
//
// # What becomes of a call
//
// A tool that reports an error has run: the model sees its text, and nothing runs again. If nothing was sent, or the
// server has refused the call, the call was not executed, and the model sees why. In all other cases the outcome is
// unknown: the connection was lost, the time was over, the answer was no answer. Then a tool of the class Pure has
// failed, and the model may call it again. Of an effect its class decides.
//
// # The connection
//
// A Client connects again when it is needed: it starts a command that has died, and begins a new session with a server
// that has forgotten it. Between attempts there are pauses of 100 ms, doubling up to 30 s. Close ends the command and
// all goroutines.
//
// The tools are those that the server listed at the beginning. If its list changes later, a call is checked against the
// new list. A tool that is gone or no longer as harmless as it was is not executed, nor are arguments that no longer
// fit.
//
// # A tool that asks a person
//
// What the server asks about a call is a question of the session, by agent.Ask: the turn settles, Paused, and the call
// is made again with the answer. In protocols before 2026-07-28 a server asks while the call is under way. It is told
// cancel at once, and only a call of the class Pure or Idempotent is made again.
//
// # What is not supported
//
// A tool that asks for something else is refused with an [InputRequiredError]. Resources, prompts and sampling are not
// offered to the server or to the model.
package mcp
