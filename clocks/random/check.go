package random

import (
	"fmt"
	"time"
)

// Probability returns an error that begins with key if p does not lie in 0 … 1.
func Probability(key string, p float64) error {
	if p >= 0 && p <= 1 {
		return nil
	}
	return fmt.Errorf("%s: %v is no probability: it lies between 0 and 1", key, p)
}

// NotNegative returns an error that begins with key if d is negative.
func NotNegative(key string, d time.Duration) error {
	if d >= 0 {
		return nil
	}
	return fmt.Errorf("%s: %v is negative", key, d)
}
