package asrmock

import "firstsound/clocks/mockserver"

// FaultHelp lists the faults, one a line.
const FaultHelp = `no_final            the final transcript never comes
early_final=300ms   it comes so long before the end of the speech, with the words so far (of recordings that the mock knows)
late_final=5s       it comes so much later
empty_final         it is empty
error=WORDS         an error message in its place, as the service has them
close=1011          the connection is closed with this code in the middle of the speech
drop                … without a word
truncated           … in the middle of the message with the final
garbage             a message that is none in place of the first partial
refuse=401          the request is refused with this status
slow=30s            the handshake, or the headers, come so much later
Each with ,p=0.5: the probability that a connection has it.`

// faultValues are the faults and what their value is when none is given.
var faultValues = map[string]string{
	"no_final": "", "early_final": "300ms", "late_final": "5s", "empty_final": "", "error": "internal error (simulated)",
	"close": "1011", "drop": "", "truncated": "", "garbage": "", "refuse": "401", "slow": "30s",
}

func parseFaults(texts []string) ([]mockserver.Fault, error) {
	return mockserver.ParseFaults(texts, faultValues, FaultHelp, func(f mockserver.Fault) error {
		switch f.Name {
		case "early_final", "late_final", "slow":
			return f.CheckDuration()
		case "close":
			return f.CheckCode(1000, 4999)
		case "refuse":
			return f.CheckCode(400, 599)
		}
		return nil
	})
}
