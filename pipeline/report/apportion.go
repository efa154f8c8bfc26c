package report

import "slices"

// apportion rounds parts to multiples of unit so that they sum to the sum of
// parts, rounded to unit: each is rounded down, and what is left goes to those
// that lost most (the method of largest remainders).
func apportion(parts []int64, unit int64) []int64 {
	total, given := int64(0), int64(0)
	out := make([]int64, len(parts))
	for i, p := range parts {
		total += p
		out[i] = floor(p, unit)
		given += out[i]
	}
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return int((parts[b] - out[b]) - (parts[a] - out[a])) // a remainder is below unit
	})
	for _, i := range order {
		if given >= floor(total+unit/2, unit) {
			break
		}
		out[i] += unit
		given += unit
	}
	return out
}

// floor rounds v down to a multiple of unit.
func floor(v, unit int64) int64 {
	r := v % unit
	if r < 0 {
		r += unit
	}
	return v - r
}
