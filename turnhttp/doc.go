// Package turnhttp puts bots behind HTTP.
package turnhttp
