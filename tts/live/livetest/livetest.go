// Package livetest has what the tests of synthesizers share.
package livetest

import (
	"strings"
	"testing"
)

// Keys checks that the default options are right, and that each change makes Check
// fail with a message that begins with the key it is named after.
func Keys[O interface{ Check() error }](t testing.TB, defaults func() O, changes map[string]func(*O)) {
	t.Helper()
	if err := defaults().Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for key, change := range changes {
		o := defaults()
		change(&o)
		if err := o.Check(); err == nil || !strings.HasPrefix(err.Error(), key+":") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
