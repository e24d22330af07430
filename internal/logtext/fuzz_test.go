package logtext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/logtext"
)

// No log line has the text of a private error, however the error is wrapped, and with any texts around it.
func FuzzOf(f *testing.F) {
	f.Add("intent: ", "card 4711", "", []byte{0, 1, 2, 3, 4})
	f.Add("", "", "", []byte{3, 3})
	f.Add("a\n", "a\na", "\na", []byte{1, 4, 1})
	f.Fuzz(func(t *testing.T, before, secret, after string, wraps []byte) {
		const mark = "\U0001f512"
		before, after = strings.ReplaceAll(before, mark, ""), strings.ReplaceAll(after, mark, "")
		err := logtext.Private(errors.New(mark + secret))
		for _, wrap := range wraps[:min(len(wraps), 8)] {
			switch wrap % 5 {
			case 0:
				err = fmt.Errorf("%s%w", before, err)
			case 1:
				err = fmt.Errorf("%s%w%s", before, err, after)
			case 2:
				err = errors.Join(errors.New(before), err, errors.New(after))
			case 3:
				err = logtext.Private(err)
			case 4:
				err = fmt.Errorf("%w: %w", errors.New(after), err)
			}
		}
		if line := logtext.Of(err); strings.Contains(line, mark) {
			t.Errorf("%q shows %q", line, secret)
		}
		_ = logtext.Public(err).Error()
	})
}
