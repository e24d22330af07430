package ops_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/checkpoint"
	"github.com/holdfast-go/holdfast/inbox"
	"github.com/holdfast-go/holdfast/internal/test/opstest"
	"github.com/holdfast-go/holdfast/ledger"
	"github.com/holdfast-go/holdfast/ops"
	"github.com/holdfast-go/holdfast/snapshot"
	"github.com/holdfast-go/holdfast/stream"
	"github.com/holdfast-go/holdfast/transcript"
	"github.com/holdfast-go/holdfast/turnlog"
)

func TestMemory(t *testing.T) {
	opstest.Run(t, func(*testing.T) ops.Stores {
		turns := new(checkpoint.Memory)
		return ops.Stores{
			Checkpoints: turns, Snapshots: new(snapshot.Memory), Ledger: new(ledger.Memory),
			TurnLog: new(turnlog.Memory), Stream: new(stream.Memory), Inbox: new(inbox.Memory),
			Transcripts: new(transcript.Memory), Bots: turns.Bots,
		}
	})
}
