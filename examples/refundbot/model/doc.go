// Package model holds the language models of the refund bot behind one interface: a scripted model, which needs no
// server, and a model that speaks the chat-completions protocol of OpenAI.
package model
