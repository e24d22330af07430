package modelapi

import (
	"fmt"

	"github.com/holdfast-go/holdfast/retry"
)

// mostOfReply is how much a reply may be, in bytes. It protects the process: an agent takes less.
const mostOfReply = 8 << 20

// A Size counts what a reply has.
type Size int

// Add counts texts. It returns an error if the reply is too large.
func (s *Size) Add(texts ...string) error {
	for _, text := range texts {
		*s += Size(len(text)) + 1
	}
	if *s > mostOfReply {
		return retry.Permanent(fmt.Errorf("the reply has more than %d bytes", mostOfReply))
	}
	return nil
}
