// Package openai asks models by the chat completions of OpenAI, and of the many servers that are compatible with them.
// Package responses beside it uses the newer API of OpenAI, which also keeps what a model has thought.
//
//	model, err := openai.New("gpt-5-mini", nil) // the key is in OPENAI_API_KEY
//	…
//	a, err := agent.New(agent.Definition[None]{Name: "shop", Model: model, …
//
// The client is openai-go. It is large: the first build of a program with an agent and this package takes 136 s of the
// processor on a slow machine, and 71 s with package responses instead. 46 s of these are the agent's. Later builds
// take no time for it.
//
// # What becomes of a reply
//
// Replies are streamed, and words are told as they come. A reply counts once the API has said why it ends: one that
// breaks off before is an error, and leaves no half call. One that ends at the longest length is Cut. A refusal, or a
// reply that a filter of the vendor has ended, is models.ErrRefused. Calls keep the ids that the API gives them.
// Arguments that are no JSON are passed on: the agent judges them. Chunks of which this package does not know are left
// out. A reply of more than 8 MiB is an error.
//
// The API has no mark on the result of a tool that has failed: its text says so. What a model has thought is not kept.
//
// # What becomes of an error
//
// The client itself never tries again: the agent does, as its definition says. Retry-After is kept. The error is a
// *models.Error of one line, and no key is in it. A key that is refused, a model that does not exist, an account that
// is used up and a tool that the API refuses are final. What was said being too long is agent.ErrTooLong.
package openai
