// Package chatserver is a server for tests that speaks the chat-completions protocol of OpenAI. The scripted model
// answers in it. It counts what it is asked, and fails as it is told.
package chatserver
