// Package models has what models of vendors share: prices, and errors. The models themselves are modules of their own,
// so that a program downloads the client of its vendor only:
//
//	models/openai      chat completions and responses of OpenAI, and of servers that are compatible with them
//	models/anthropic   messages of Anthropic
//	models/scripted    replies by a script, in this module: for tests, without a key
package models
