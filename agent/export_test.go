package agent

// SetTail sets how many bytes ride in the state.
func (a *Agent[C]) SetTail(n int) { a.tail = n }
