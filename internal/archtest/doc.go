// Package archtest holds the repository to its own rules: which package may import
// which, that every package says what it is, and that no file depends on where
// somebody has the checkout. It is all tests.
package archtest
