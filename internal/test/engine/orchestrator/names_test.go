package orchestrator_test

import "github.com/holdfast-go/holdfast/internal/test/bottest"

// Short names, for the tests of this package.
type (
	Bot          = bottest.Bot
	Def          = bottest.Def
	Event        = bottest.Event
	Input        = bottest.Input
	Intent       = bottest.Intent
	Intents      = bottest.Intents
	Next         = bottest.Next
	Options      = bottest.Options
	Result       = bottest.Result
	State        = bottest.State
	Turn         = bottest.Turn
	awayEffects  = bottest.AwayEffects
	compactor    = bottest.Compactor
	conversation = bottest.Conversation
	diary        = bottest.Diary
	grave        = bottest.Grave
	hoarder      = bottest.Hoarder
	lockedBuffer = bottest.LockedBuffer
	readRuns     = bottest.ReadRuns
	shop         = bottest.Shop
	vendor       = bottest.Vendor
	world        = bottest.World
)

var (
	abandon      = bottest.Abandon
	add          = bottest.Add
	attempts     = bottest.Attempts
	brokenSteps  = bottest.BrokenSteps
	delivered    = bottest.Delivered
	diesAtOnce   = bottest.DiesAtOnce
	echo         = bottest.Echo
	enqueue      = bottest.Enqueue
	errBoom      = bottest.ErrBoom
	errBot       = bottest.ErrBot
	errDead      = bottest.ErrDead
	errDelivery  = bottest.ErrDelivery
	errGone      = bottest.ErrGone
	errLost      = bottest.ErrLost
	errTimeout   = bottest.ErrTimeout
	execute      = bottest.Execute
	failsTurns   = bottest.FailsTurns
	followed     = bottest.Followed
	fork         = bottest.Fork
	hanging      = bottest.Hanging
	inspect      = bottest.Inspect
	lesser       = bottest.Lesser
	newShop      = bottest.NewShop
	newWorld     = bottest.NewWorld
	nobodyDies   = bottest.NobodyDies
	once1        = bottest.Once1
	patient      = bottest.Patient
	quiet        = bottest.Quiet
	recoverAll   = bottest.RecoverAll
	recoverable  = bottest.Recoverable
	refusesInput = bottest.RefusesInput
	say          = bottest.Say
	seize        = bottest.Seize
	single       = bottest.Single
	soak         = bottest.Soak
	spoken       = bottest.Spoken
	steps        = bottest.Steps
	strict       = bottest.Strict
	talks        = bottest.Talks
	theDoubt     = bottest.TheDoubt
	turns        = bottest.Turns
	unpark       = bottest.Unpark
	unrenewed    = bottest.Unrenewed
	wantDoubt    = bottest.WantDoubt
	wantDrift    = bottest.WantDrift
	wantErr      = bottest.WantErr
	wantOp       = bottest.WantOp
	wantParked   = bottest.WantParked
	wantRuns     = bottest.WantRuns
	wantSaid     = bottest.WantSaid
	wantStanding = bottest.WantStanding
	wantTurns    = bottest.WantTurns
	worldOf      = bottest.WorldOf
)

const raceDetector = bottest.RaceDetector

const strangers = bottest.Strangers

const wholeTurn = bottest.WholeTurn
