package transcripttest_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/transcript/transcripttest"
)

func TestMemory(t *testing.T) {
	transcripttest.Run(t, func(*testing.T) transcript.Store { return new(transcript.Memory) })
}
