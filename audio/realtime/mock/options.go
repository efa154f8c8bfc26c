// Package mock is an agent that speaks OpenAI's Realtime API: it finds the end of
// the speech by its energy, answers with a tone after times that are drawn from
// distributions, and tells what really happened (Truth). Its voice is of no use;
// its times are known.
package mock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"firstsound/clocks/mockserver"
	"firstsound/clocks/random"
)

// Options say how the mock answers. Start from Defaults.
type Options struct {
	Seed uint64 `yaml:"seed"`

	Silence  time.Duration `yaml:"silence"`  // that ends the speech, unless the session says silence_duration_ms
	Endpoint random.Dist   `yaml:"endpoint"` // from there to input_audio_buffer.speech_stopped
	Create   random.Dist   `yaml:"create"`   // from that, or response.create, to response.created
	First    random.Dist   `yaml:"first"`    // from that to the first sound
	Lead     random.Dist   `yaml:"lead"`     // silence at the head of the answer
	Length   random.Dist   `yaml:"length"`   // of the answer behind it
	Chunk    time.Duration `yaml:"chunk"`    // sound in a delta
	Gap      random.Dist   `yaml:"gap"`      // between two deltas
	Text     string        `yaml:"text"`     // the transcript of the answer

	Beta   bool     `yaml:"beta"` // it speaks the names of the API's beta
	Keys   []string `yaml:"-"`    // that are accepted; nil: any and none
	Faults []string `yaml:"faults"`

	MaxAudio time.Duration `yaml:"max_audio"` // of a session

	// Epoch is what the wall clock showed when the run's clock was at 0.
	Epoch time.Time `yaml:"-"`

	// Truth is told of each session when it has ended, by several goroutines at
	// once. Nil: nobody listens.
	Truth func(Truth) `yaml:"-"`
}

// Defaults are an agent like OpenAI's: 500 ms of silence, and sound after about
// half a second more, which comes faster than it is played.
func Defaults() Options {
	return Options{
		Silence: 500 * time.Millisecond, Endpoint: random.MustParse("lognormal(20ms, 0.2)"), Create: random.MustParse("lognormal(10ms, 0.2)"),
		First: random.MustParse("lognormal(350ms, 0.25)"), Lead: random.MustParse("lognormal(60ms, 0.3)"), Length: random.MustParse("lognormal(3s, 0.3)"),
		Chunk: 100 * time.Millisecond, Gap: random.MustParse("lognormal(25ms, 0.3)"), Text: "We are open until six.", MaxAudio: time.Hour,
	}
}

// maxLength bounds an answer.
const maxLength = 5 * time.Minute

// Check says what is wrong with o; the message begins with the key.
func (o Options) Check() error {
	if o.Chunk < time.Millisecond || o.Chunk > 10*time.Second {
		return fmt.Errorf("chunk: %v; it lies between 1ms and 10s", o.Chunk)
	}
	if o.MaxAudio <= 0 {
		return fmt.Errorf("max_audio: %v; it is above 0", o.MaxAudio)
	}
	_, err := parseFaults(o.Faults)
	return cmp.Or(err, random.NotNegative("silence", o.Silence))
}

// Decode lays YAML over the options. A key that there is not is an error.
func (o *Options) Decode(text []byte) error {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(o); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// FaultHelp lists the faults, one a line.
const FaultHelp = `no_response      the speech is never answered
silent           the answer is silence
error=WORDS      an error event in place of the answer
failed=WORDS     the response fails after its first sound
close=1011       the connection is closed with this code after the first sound
drop             … without a word
garbage          a message that is no event in place of the answer
odd              the deltas have half samples at their ends
huge             all sound comes in one delta
deaf             the speech is never noticed
refuse=401       the connection is refused with this status
slow=5s          session.created comes so much later
Each with ,p=0.5: the probability that a session has it.`

// faultValues are the faults and what their value is when none is given.
var faultValues = map[string]string{
	"no_response": "", "silent": "", "error": "the server had an error (simulated)", "failed": "the server had an error (simulated)",
	"close": "1011", "drop": "", "garbage": "", "odd": "", "huge": "", "deaf": "", "refuse": "401", "slow": "5s",
}

func parseFaults(texts []string) ([]mockserver.Fault, error) {
	return mockserver.ParseFaults(texts, faultValues, FaultHelp, func(f mockserver.Fault) error {
		switch f.Name {
		case "slow":
			return f.CheckDuration()
		case "close":
			return f.CheckCode(1000, 4999)
		case "refuse":
			return f.CheckCode(400, 599)
		}
		return nil
	})
}
