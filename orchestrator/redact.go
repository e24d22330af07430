package orchestrator

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/jsonvalue"
	"github.com/holdfast-go/holdfast/internal/logtext"
	"github.com/holdfast-go/holdfast/ledger"
)

// Effects say what is kept of effects.
type Effects struct {
	// Redact returns what the ledger keeps of an effect: of what it returns, Args, Result and Error count. It is called
	// with the Args before the effect is tried, and with the Result or the Error after that. A result that Redact
	// changes cannot be given back: a replay of the effect is ledger.ErrRedacted. So redact arguments, and results only
	// if nothing reads them again. The text of the error that a run keeps passes Redact too, in an Effect without
	// Name. Redact may be called by several goroutines at once.
	Redact func(ledger.Effect) ledger.Effect

	// SumKey is a secret. The ledger keeps a sum of the arguments as they were before Redact, by which other arguments
	// are noticed. With a SumKey the sum does not give the arguments away. Redact needs one. After another SumKey is
	// set, sums of the earlier one are not compared.
	SumKey []byte

	// Linger is how long the outcome of an effect may wait for a save of its run to carry it: a commit less. It is for
	// snapshot stores that are a snapshot.EffectJoiner. If the process dies meanwhile, the effect is in doubt, as if it
	// had died before the function returned. The next effect, the next recorded call of a model and a phase of the turn
	// log wait for the outcome. 0 means 5 ms, and less than 0 that each outcome is recorded at once.
	Linger time.Duration
}

// linger is Effects.Linger, if the options do not say.
const linger = 5 * time.Millisecond

func (o *Effects) faults() []string {
	if o.Redact != nil && len(o.SumKey) == 0 {
		return []string{"Effects.Redact without Effects.SumKey: the sum of the arguments would tell what they are"}
	}
	return nil
}

// sum returns the sum of arguments. It names its key before a colon.
func (o *Effects) sum(args json.RawMessage) (string, error) {
	same, err := jsonvalue.Canonical(args)
	if err != nil {
		return "", fmt.Errorf("%w: arguments: %w", ledger.ErrInvalid, logtext.Private(err))
	}
	if len(o.SumKey) == 0 {
		sum := sha256.Sum256(same)
		return "sha256:" + hex.EncodeToString(sum[:]), nil
	}
	sum := func(text []byte) string {
		h := hmac.New(sha256.New, o.SumKey)
		h.Write(text)
		return hex.EncodeToString(h.Sum(nil))
	}
	return sum([]byte("name of the key"))[:16] + ":" + sum(same), nil
}
