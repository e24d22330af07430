// Package archtest checks the repository's own rules. Packages import only the packages that they may. Every package
// has a comment. No file depends on the directory of the checkout. The package has only tests.
package archtest
