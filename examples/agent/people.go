package main

import "github.com/holdfast-go/holdfast/turnhttp"

// talks is what a customer may do. Their page answers for client tools, and approves nothing.
var talks = turnhttp.Allow("customer", turnhttp.ActionTurn, turnhttp.ActionFollow, turnhttp.ActionStop,
	turnhttp.ActionBranch, turnhttp.ActionClient)

// answers is what the desk may do.
var answers = turnhttp.Allow("desk",
	turnhttp.ActionFollow, turnhttp.ActionRead, turnhttp.ActionAnswer, turnhttp.ActionResolve)

// clientTools are run by the page of a customer. What a function throws is the result of a call that has failed.
const clientTools = `{
	time_zone: () => Intl.DateTimeFormat().resolvedOptions().timeZone,
}`
