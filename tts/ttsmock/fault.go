package ttsmock

import (
	"strconv"

	"firstsound/audio"
	"firstsound/clocks/mockserver"
)

// FaultHelp lists the faults, one a line.
const FaultHelp = `refuse=401          the request is refused with this status
slow=30s            the handshake, or the headers, come so much later
error=WORDS         an error message in place of the sound, as the service has them
error_200=WORDS     over HTTP, the same with status 200
type=text/html      over HTTP, this Content-Type
empty               there is no sound
silence=1s          so much more silence before the speech
huge                all sound in one chunk, when all of it is made
odd                 chunks end in the middle of a sample
wrong_rate=8000     the sound has this rate, whatever was asked for
stall=2s            a pause in the middle of the sound
garbage             a message that is none in place of the first sound
close=1011          the connection is closed with this code in the middle of the sound
drop                … without a word
truncated           … in the middle of a message
no_end              the end of the piece is never told
Each with ,p=0.5: the probability that a connection, or an HTTP request, has it.`

// faultValues are the faults and what their value is when none is given.
var faultValues = map[string]string{
	"refuse": "401", "slow": "30s", "error": "internal error (simulated)", "error_200": "internal error (simulated)", "type": "text/html", "empty": "",
	"silence": "1s", "huge": "", "odd": "", "wrong_rate": "8000", "stall": "2s", "garbage": "", "close": "1011", "drop": "", "truncated": "", "no_end": "",
}

func parseFaults(texts []string) ([]mockserver.Fault, error) {
	return mockserver.ParseFaults(texts, faultValues, FaultHelp, func(f mockserver.Fault) error {
		switch f.Name {
		case "slow", "silence", "stall":
			return f.CheckDuration()
		case "close":
			return f.CheckCode(1000, 4999)
		case "refuse":
			return f.CheckCode(400, 599)
		case "wrong_rate":
			n, err := strconv.Atoi(f.Value)
			if err != nil {
				return err
			}
			return audio.CheckRate(n)
		}
		return nil
	})
}
