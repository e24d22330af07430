package workflow

import (
	"fmt"
	"strings"
)

// UnknownError is the Error of a run that is held as HoldUnknown.
func UnknownError(workflow string, version int) string {
	return fmt.Sprintf("no living process has version %d of workflow %q", version, workflow)
}

// CrashError is the Error of a run that is held as Crashed.
func CrashError(crashes int) string {
	return fmt.Sprintf("%d processes in a row have ended without progress of this run", crashes)
}

// ErrorText returns the text of an error as a store keeps it: valid UTF-8 without U+0000, and cut at MaxError.
func ErrorText(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > MaxError {
		text = strings.ToValidUTF8(text[:MaxError-3], "") + "…"
	}
	return text
}
