// Package apart makes a call about many things that a few of them may spoil.
package apart

// Do calls do with all. If that fails, pieces says for the error, and for how many things do was called, into how many
// pieces they are divided. Do then does the same with each piece: 2 costs few calls if few things spoil them. If pieces
// returns less than 2, or there is one thing only, what became of these things is unknown.
//
// Do returns the unknown things and the first of their errors.
func Do[T any](all []T, do func(some []T) error, pieces func(err error, n int) int) (unknown []T, first error) {
	err := do(all)
	if err == nil {
		return nil, nil
	}
	n := 1
	if len(all) > 1 {
		n = min(pieces(err, len(all)), len(all))
	}
	if n < 2 {
		return all, err
	}
	for i := range n {
		left, err := Do(all[i*len(all)/n:(i+1)*len(all)/n], do, pieces)
		if unknown = append(unknown, left...); first == nil {
			first = err
		}
	}
	return unknown, first
}
