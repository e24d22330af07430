// Package model has a model that needs no key: it reads English by patterns, and replies by rules.
package model
