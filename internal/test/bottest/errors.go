package bottest

import (
	"errors"
	"os"
)

// Errors of what a bot calls.
var (
	ErrAway         = errors.New("the model is away")
	ErrBoom         = errors.New("boom")
	ErrBot          = errors.New("the bot has failed")
	ErrDead         = errors.New("the process is dead")
	ErrDeclined     = errors.New("card declined")
	ErrDelivery     = errors.New("database of messages is down")
	ErrFull         = errors.New("no space left on device")
	ErrGone         = errors.New("the client is gone")
	ErrLost         = errors.New("connection reset")
	ErrRefusedInput = errors.New("refused input")
	ErrTimeout      = errors.New("gateway timeout")
)

// Strangers is how many sessions one test asks for once.
const Strangers = 200

// Soak reports whether there is time for everything.
func Soak() bool { return os.Getenv("HOLDFAST_SOAK") == "1" }
