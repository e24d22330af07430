// Package modeltest has servers that speak the wire formats of vendors by a script, and what the model of each vendor
// has to do with what they say. No test needs a key or the Internet.
package modeltest
