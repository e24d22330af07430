package orchestrator

// A Usage is the cost of calls to models.
type Usage struct {
	Input, Output int // tokens
	Cost          float64

	// Model names the model of one call, and Provider whoever has it, for spans and metrics: a gen_ai.provider.name of
	// OpenTelemetry, such as openai. They are not stored, and a sum has none.
	Model    string `json:",omitempty"`
	Provider string `json:",omitempty"`
}

func (u Usage) plus(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, Cost: u.Cost + v.Cost}
}

func (u Usage) minus(v Usage) Usage {
	return Usage{Input: u.Input - v.Input, Output: u.Output - v.Output, Cost: u.Cost - v.Cost}
}

// atLeast returns the larger of each field.
func (u Usage) atLeast(v Usage) Usage {
	return Usage{Input: max(u.Input, v.Input), Output: max(u.Output, v.Output), Cost: max(u.Cost, v.Cost)}
}
