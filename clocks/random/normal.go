package random

import "math"

// normalQuantile is the inverse of the standard normal distribution function,
// after Wichura, "Algorithm AS 241", Applied Statistics 37 (1988), PPND7: about
// 7 decimal digits, enough for durations. p lies in (0, 1).
func normalQuantile(p float64) float64 {
	q := p - 0.5
	if math.Abs(q) <= 0.425 {
		r := 0.180625 - q*q
		return q * (((59.10937472*r+159.29113202)*r+50.434271938)*r + 3.3871327179) /
			(((67.1875636*r+78.757757664)*r+17.895169469)*r + 1)
	}
	r := p
	if q > 0 {
		r = 1 - p
	}
	r = math.Sqrt(-math.Log(r))
	var z float64
	if r <= 5 {
		r -= 1.6
		z = (((0.17023821103*r+1.3067284816)*r+2.75681539)*r + 1.4234372777) /
			((0.12021132975*r+0.7370016425)*r + 1)
	} else {
		r -= 5
		z = (((0.017337203997*r+0.42868294337)*r+3.081226386)*r + 6.657905115) /
			((0.012258202635*r+0.24197894225)*r + 1)
	}
	if q < 0 {
		return -z
	}
	return z
}
