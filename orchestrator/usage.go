package orchestrator

// A Usage is the cost of calls to models.
type Usage struct {
	Input, Output int
	Cost          float64
}

func (u Usage) plus(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, Cost: u.Cost + v.Cost}
}

func (u Usage) minus(v Usage) Usage {
	return Usage{Input: u.Input - v.Input, Output: u.Output - v.Output, Cost: u.Cost - v.Cost}
}
