// Package modelapi has what the models of vendors share: how a refusal of an API becomes an error of a model, which
// schemas of tools an API takes, and how much a reply may be.
package modelapi
