package orchestrator

import "slices"

// A stage is where a flight stands.
type stage int

const (
	arrived  stage = iota // the session is ours
	looked                // it is known whether an earlier call has begun the run
	built                 // the turn is as Begin leaves it, on the newest state
	begun                 // the run is accepted: every process can go on with it, if there is a snapshot store
	recorded              // the turn log has the beginning
	deciding              // what runs next: Route, or what is known already
	working               // the intents run
	judging               // what follows: Evaluate, Then, Next
	settling              // the turn is appended
	over                  // the turn has one of the endings
)

var stageNames = [...]string{
	"arrived", "looked", "built", "begun", "recorded", "deciding", "working", "judging", "settling", "over",
}

func (s stage) String() string { return stageNames[s] }

// stages are the ways from stage to stage. From each the flight may also be over.
var stages = [...][]stage{
	arrived:  {looked, built, begun}, // begun: the run was found in flight
	looked:   {built},
	built:    {built, begun}, // built anew: another turn has settled since
	begun:    {recorded},
	recorded: {deciding, settling}, // settling: nothing runs in a turn of Put
	deciding: {working, settling},
	working:  {judging, settling}, // settling: OnFail settles a turn that failed
	judging:  {deciding, settling},
	settling: {settling}, // anew: OnFail, if no store takes the state
	over:     {},
}

// leads reports whether there is a way to a stage.
func (s stage) leads(to stage) bool {
	return s != over && (to == over || slices.Contains(stages[s], to))
}
