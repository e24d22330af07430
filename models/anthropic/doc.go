// Package anthropic asks models by the messages API of Anthropic.
//
//	model, err := anthropic.New("claude-sonnet-4-5", nil) // the key is in ANTHROPIC_API_KEY
//	…
//	a, err := agent.New(agent.Definition[None]{Name: "shop", Model: model, …
//
// The client is anthropic-sdk-go. It is large: the first build of a program with an agent and this package takes 110 s
// of the processor on a slow machine, of which 46 s are the agent's. Later builds take no time for it.
//
// # What is shown to the model
//
// The instructions, the tools and what was said so far are marked for the vendor's cache. What the user says and the
// results before it are one message, and the results come first. What the model has thought is kept with its signature,
// and given back unchanged, to the same model and to no other one.
//
// A model that thinks cannot be forced to call a tool. In an agent with a Finish it may answer in words: its
// instructions should say that it has to finish.
//
// # What becomes of a reply
//
// Replies are streamed, and words are told as they come. A reply counts once its last event has come: one that breaks
// off before is an error, and leaves no half call. One that ends at Params.MaxTokens, or because there is no more room
// for it, is Cut. A refusal is models.ErrRefused. Calls keep the ids that the API gives them. Arguments that are no
// JSON are passed on: the agent judges them. Events and blocks of which this package does not know are left out. A
// reply of more than 8 MiB is an error.
//
// # What becomes of an error
//
// The client itself never tries again: the agent does, as its definition says. Retry-After is kept. The error is a
// *models.Error of one line, and no key is in it, also if the vendor says it in the middle of a reply. A key that is
// refused, a model that does not exist and a tool that the API refuses are final. What was said being too long is
// agent.ErrTooLong.
package anthropic
