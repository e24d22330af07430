// Package tutorial tests docs/tutorial.md. The test writes the files of the page, types its commands, and compares what
// they print.
package tutorial
