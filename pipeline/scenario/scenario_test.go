package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"firstsound/clocks/random"
	"firstsound/pipeline"
)

// semantic stands for the options of a turn detector.
type semantic struct {
	Inference   random.Dist `yaml:"inference"`
	Finished    float64     `yaml:"finished"`
	FalseFinish float64     `yaml:"false_finish"`
	Server      *struct {   // of another provider
		GPU      string            `yaml:"gpu"`
		Replicas int               `yaml:"replicas"`
		Headers  map[string]string `yaml:"headers"`
	} `yaml:"model_server"`
}

func (s semantic) Check() error {
	if s.Finished < 0 || s.Finished > 1 {
		return errors.New("finished: must lie between 0 and 1")
	}
	if s.Server != nil && s.Server.Replicas > 9 {
		return errors.New("model_server: replicas: too many")
	}
	if s.FalseFinish > 1 {
		return errors.New("nonsense: in all of it")
	}
	return nil
}

func mustLoad(t *testing.T, text string, settings ...string) *Scenario {
	t.Helper()
	s, err := Load("scenario.yaml", []byte(text), settings...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDefault(t *testing.T) {
	s := mustLoad(t, "")
	if s.Seed != 1 || s.Clock != Virtual || s.Target != 1115*time.Millisecond {
		t.Errorf("seed %d, clock %s, target %v", s.Seed, s.Clock, s.Target)
	}
	if want := (Arrivals{Arrival: "closed", Sessions: 20, Turns: 400, CV: 1, Warmup: 5}); s.Load != want {
		t.Errorf("load %+v", s.Load)
	}
	if s.Turn.Preemptive != pipeline.PreemptOff || s.Turn.MaxDelay != 3*time.Second || s.Turn.Provider != "semantic" {
		t.Errorf("turn %+v", s.Turn)
	}
	if s.Cut != (Cut{pipeline.CutSentence, 6, true}) {
		t.Errorf("cut %+v", s.Cut)
	}
	if len(s.Agent.Steps) != 1 || s.Agent.Steps[0].Name != "retrieval" || s.Agent.Steps[0].Provider != "sim" {
		t.Errorf("steps %+v", s.Agent.Steps)
	}
	if !strings.HasSuffix(s.Conversation.SystemPrompt, "or markup.") {
		t.Errorf("system prompt %q", s.Conversation.SystemPrompt)
	}
	var d semantic
	if err := s.Turn.Decode(&d); err != nil || d.Finished != 0.92 || d.Inference.String() != "lognormal(12ms, 0.25)" || d.Server != nil {
		t.Errorf("%+v, %v", d, err)
	}
	for _, empty := range []string{"\n", "# nothing\n", "---\n", "{}", "load:\n", "\ufeff# BOM\n"} {
		if got := mustLoad(t, empty); got.YAML() != mustLoad(t, "").YAML() {
			t.Errorf("%q is not the default scenario", empty)
		}
	}
}

func TestLayers(t *testing.T) {
	s := mustLoad(t, `
load: {turns: 10}
conversation:
  languages: [zh]
asr:
  provider: deepgram
  key_env: DEEPGRAM_API_KEY
llm:
  temperature: null
  fallback:
    - {provider: other, base: 50ms}
agent:
  steps:
    - {name: one, time: 1ms}
    - {name: two, time: "uniform(1ms, 2ms)"}
`, "llm.fallback.0.provider=third", "llm.fallback.0.url=http://a:1/b", "agent.steps.1.time=3ms", "load.turns=7",
		"turn.model_server.gpu=h100", "corpus=", "conversation.barge_in_after=uniform(1s, 2s)", "agent.filler=One moment.", "llm.fail=0.5")
	if s.Load.Turns != 7 || s.Load.Sessions != 20 {
		t.Errorf("load %+v", s.Load)
	}
	if !reflect.DeepEqual(s.Conversation.Languages, []string{"zh"}) || s.Conversation.BargeInAfter.String() != "uniform(1s, 2s)" {
		t.Errorf("conversation %+v", s.Conversation)
	}
	if s.LLM.Temperature != nil || s.LLM.Model != "llama-3.1-8b" || s.Agent.Filler != "One moment." || s.Corpus != "" {
		t.Errorf("llm %+v, filler %q, corpus %q", s.LLM, s.Agent.Filler, s.Corpus)
	}

	// Another provider: only its own keys are left.
	var deepgram struct {
		Key string `yaml:"key_env"`
	}
	if err := s.ASR.Decode(&deepgram); err != nil || deepgram.Key != "DEEPGRAM_API_KEY" || s.ASR.Timeout != time.Second {
		t.Errorf("asr %+v, %v", deepgram, err)
	}
	var third struct {
		URL string `yaml:"url"`
	}
	if err := s.LLM.Fallback[0].Decode(&third); err != nil || third.URL != "http://a:1/b" || s.LLM.Fallback[0].Path() != "llm.fallback.0" {
		t.Errorf("fallback %+v, %v", third, err)
	}
	var step struct {
		Time   random.Dist `yaml:"time"`
		Tokens int         `yaml:"tokens"`
	}
	if err := s.Agent.Steps[1].Decode(&step); err != nil || step.Time.String() != "3ms" || step.Tokens != 0 {
		t.Errorf("step %+v, %v", step, err)
	}
	var d semantic
	if err := s.Turn.Decode(&d); err != nil || d.Server == nil || d.Server.GPU != "h100" || d.Server.Replicas != 0 {
		t.Errorf("turn %+v, %v", d, err)
	}

	// A provider from the command line keeps the settings of its own keys,
	// whatever their order.
	s = mustLoad(t, "", "asr.key_env=K", "asr.provider=deepgram")
	if err := s.ASR.Decode(&deepgram); err != nil || deepgram.Key != "K" {
		t.Errorf("asr %+v, %v", deepgram, err)
	}
}

func TestYAML(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		settings   []string
	}{
		{"default", "", nil},
		{"texts", `agent: {filler: " \"One\"\n\tmoment\u0085: # no\r\n"}` + "\n", []string{"llm.model='0'", "corpus='null'", "conversation.system_prompt=2020-01-01"}},
		{"lists", "conversation: {languages: []}\nagent: {tools: [], steps: []}\n", []string{"seed=18446744073709551615"}},
		{"order", "turn: {model_server: {replicas: 2, gpu: a, headers: {b: '1', a: null-ish}}, inference: 5ms}\n", nil},
		{"alias", "asr: {timeout: &t 2s}\nllm: {timeout: *t, fallback: [&f {provider: sim, x: 1}]}\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := mustLoad(t, tt.text, tt.settings...)
			if err := s.Turn.Decode(&semantic{Server: nil}); err != nil {
				t.Fatal(err)
			}
			text := s.YAML()
			again := mustLoad(t, text)
			if again.YAML() != text {
				t.Errorf("the YAML of\n%s\nis\n%s", text, again.YAML())
			}
			if a, b := withoutNodes(s), withoutNodes(again); !reflect.DeepEqual(a, b) {
				t.Errorf("%+v comes back as\n%+v", a, b)
			}
		})
	}

	// What a provider has decoded is spelled out.
	s := mustLoad(t, "vad: {provider: other, x: 3}\n")
	options := struct {
		X int           `yaml:"x"`
		Y time.Duration `yaml:"y"`
		Z *random.Dist  `yaml:"z"`
		S struct {
			T []string `yaml:"t"`
		} `yaml:"s"`
	}{Y: 1500 * time.Microsecond}
	if err := s.VAD.Decode(&options); err != nil {
		t.Fatal(err)
	}
	if want := "vad:\n  provider: other\n  x: 3\n  y: 1.5ms\n  z: null\n  s:\n    t: []\n"; !strings.Contains(s.YAML(), want) {
		t.Errorf("no\n%sin\n%s", want, s.YAML())
	}
}

// withoutNodes returns s without the places where it was written.
func withoutNodes(s *Scenario) Scenario {
	c := *s
	c.root = nil
	strip := func(b *Block) { *b = Block{Provider: b.Provider} }
	strip(&c.Line)
	strip(&c.VAD)
	strip(&c.ASR.Block)
	strip(&c.Turn.Block)
	strip(&c.LLM.Block)
	strip(&c.TTS.Block)
	c.LLM.Fallback, c.TTS.Fallback, c.Agent.Steps, c.Agent.Tools = nil, nil, nil, nil
	for _, b := range s.LLM.Fallback {
		strip(&b)
		c.LLM.Fallback = append(c.LLM.Fallback, b)
	}
	for _, steps := range [][]Step{s.Agent.Steps, s.Agent.Tools} {
		for _, step := range steps {
			strip(&step.Block)
			c.Agent.Steps = append(c.Agent.Steps, step)
		}
	}
	return c
}

func TestWrong(t *testing.T) {
	long := "seed: 1 #" + strings.Repeat("x", maxBytes)
	bomb := "corpus: &a [1,2,3,4,5,6,7,8,9]\nseed: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nline: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
		"vad: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\nasr: [*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
	for _, tt := range []struct{ name, text, set, want string }{
		{"unknown key", "seed: 1\nasr:\n  timeout: 1s\nlaod: {}\n", "",
			"scenario.yaml:4:1: laod: there is no such key; did you mean load?"},
		{"unknown key in a group", "load:\n  session: 4\n", "",
			"scenario.yaml:2:3: load.session: there is no such key; did you mean sessions?"},
		{"key in the wrong place", "rate: 4\n", "",
			"scenario.yaml:1:1: rate: there is no such key here; it is load.rate or tts.rate"},
		{"unknown key like no other", "cut: {zzzzzz: 4}\n", "",
			"scenario.yaml:1:7: cut.zzzzzz: there is no such key; there are mode, words, look_ahead"},
		{"key of the provider", "turn:\n  finishd: 0.5\n", "",
			"scenario.yaml:2:3: turn.finishd: provider semantic has no such key; did you mean finished?"},
		{"common key of a provider", "turn:\n  maxdelay: 1s\n", "",
			"scenario.yaml:2:3: turn.maxdelay: provider semantic has no such key; did you mean max_delay?"},
		{"key below a provider's", "turn:\n  model_server: {gpus: 4}\n", "",
			"scenario.yaml:2:18: turn.model_server.gpus: there is no such key; did you mean gpu?"},
		{"given twice", "load:\n  turns: 3\n  rate: 0\n  turns: 4\n", "",
			"scenario.yaml:4:3: load.turns: given twice, first in line 2"},
		{"no unit", "asr:\n  timeout: 800\n", "",
			`scenario.yaml:2:12: asr.timeout: "800" is not a duration: write a number with its unit, such as 800ms`},
		{"no unit, seconds", "asr: {timeout: 1.5}\n", "",
			`scenario.yaml:1:16: asr.timeout: "1.5" is not a duration: write a number with its unit, such as 1.5s`},
		{"odd unit", "asr: {timeout: 1 second}\n", "",
			`scenario.yaml:1:16: asr.timeout: "1 second" is not a duration: write a number with its unit, such as 250ms or 1.5s`},
		{"negative duration", "asr: {timeout: -1s}\n", "",
			`scenario.yaml:1:16: asr.timeout: "-1s" is negative`},
		{"distribution without unit", "conversation:\n  gap: normal(208, 60ms)\n", "",
			`scenario.yaml:2:8: conversation.gap: normal: "208" is not a duration: write a number with its unit, such as 250ms or 1.5s; it is written normal(mean, standard deviation)`},
		{"distribution in braces", "conversation: {gap: normal(208ms, 60ms)}\n", "",
			`scenario.yaml:1:21: conversation.gap: "normal(208ms" lacks its closing parenthesis; inside { } and [ ] put it in quotes, since a comma ends a value there`},
		{"unknown distribution", "turn: {inference: gamma(2)}\n", "",
			`scenario.yaml:1:19: turn.inference: no distribution is called "gamma"; there are uniform, normal, lognormal, exponential, heavy, quantiles, or a plain duration such as 120ms`},
		{"rest of a distribution", "load: {60ms)}\n", "",
			"scenario.yaml:1:8: load.60ms): there is no such key; inside { } put a distribution in quotes, since a comma ends a value there"},
		{"not a whole number", "load: {turns: 2.5}\n", "",
			`scenario.yaml:1:15: load.turns: "2.5" is not a whole number`},
		{"too large", "load: {turns: 99999999999999999999}\n", "",
			`scenario.yaml:1:15: load.turns: "99999999999999999999" is too large`},
		{"negative seed", "seed: -1\n", "",
			"scenario.yaml:1:7: seed: -1 is negative"},
		{"percent", "conversation: {barge_in: 5%}\n", "",
			`scenario.yaml:1:26: conversation.barge_in: "5%" is not a number: write 0.05`},
		{"not a number", "load: {rate: .inf}\n", "",
			`scenario.yaml:1:14: load.rate: ".inf" is not a number`},
		{"yes", "agent: {parallel: yes}\n", "",
			`scenario.yaml:1:19: agent.parallel: "yes" is not true or false`},
		{"list for a value", "load: {turns: [1, 2]}\n", "",
			"scenario.yaml:1:15: load.turns: one value is needed here, not a list"},
		{"value for a list", "conversation: {languages: en}\n", "",
			"scenario.yaml:1:27: conversation.languages: a list is needed here, such as [en]"},
		{"value for a group", "load: closed\n", "",
			`scenario.yaml:1:7: load: a group of keys is needed here, not "closed"`},
		{"nothing for a value", "load:\n  turns:\n", "",
			"scenario.yaml:2:9: load.turns: has no value: give it one, or leave the key out"},
		{"nothing for a list", "agent:\n  steps:\n", "",
			"scenario.yaml:2:9: agent.steps: a list is needed here, not nothing; an empty one is []"},
		{"list for all", "- load\n", "",
			"scenario.yaml:1:1: a scenario is a group of keys, such as load: {turns: 100}, and not a list"},
		{"negative count", "load: {turns: -4}\n", "",
			"scenario.yaml:1:15: load.turns: -4 does not lie between 0 and 100000000"},
		{"no session", "load: {sessions: 0}\n", "",
			"scenario.yaml:1:18: load.sessions: 0 does not lie between 1 and 100000"},
		{"probability", "conversation:\n  barge_in: 5\n", "",
			"scenario.yaml:2:13: conversation.barge_in: 5 does not lie between 0 and 1"},
		{"probability of a provider", "turn: {finished: 1.5}\n", "",
			"scenario.yaml:1:18: turn.finished: must lie between 0 and 1"},
		{"check below a provider", "turn: {model_server: {replicas: 10}}\n", "",
			"scenario.yaml:1:33: turn.model_server.replicas: too many"},
		{"unknown arrival", "load: {arrival: burst}\n", "",
			`scenario.yaml:1:17: load.arrival: "burst" is not one of closed, poisson, constant, gamma, trace`},
		{"unknown clock", "clock: wall\n", "",
			`scenario.yaml:1:8: clock: "wall" is not one of virtual, real`},
		{"unknown way to cut", "cut: {mode: line}\n", "",
			`scenario.yaml:1:13: cut.mode: "line" is not one of sentence, clause, words`},
		{"no rate", "load: {arrival: poisson}\n", "",
			"scenario.yaml:1:17: load.arrival: poisson arrival needs load.rate, the new calls a second, above 0"},
		{"rate without use", "load: {rate: 3}\n", "",
			"scenario.yaml:1:14: load.rate: closed arrival takes no load.rate: set load.arrival to poisson, constant or gamma"},
		{"a trace without a file", "load: {arrival: trace}\n", "",
			"scenario.yaml:1:17: load.arrival: trace arrival needs load.trace, a file of recorded arrivals"},
		{"a trace with a rate", "load: {arrival: trace, trace: a.csv, rate: 3}\n", "",
			"scenario.yaml:1:44: load.rate: trace arrival takes no load.rate: the trace says when calls begin"},
		{"a trace that is not used", "load: {trace: a.csv}\n", "",
			"scenario.yaml:1:15: load.trace: closed arrival takes no load.trace: set load.arrival to trace"},
		{"gamma without spread", "load: {arrival: gamma, rate: 3, cv: 0}\n", "",
			"scenario.yaml:1:37: load.cv: gamma arrival needs load.cv, the spread of the gaps, between 0.01 and 100, and not 0"},
		{"lengths", "conversation: {lengths: poisson}\n", "",
			`scenario.yaml:1:25: conversation.lengths: "poisson" is not one of constant, geometric`},
		{"no end", "load: {arrival: constant, rate: 3, turns: 0}\n", "",
			"scenario.yaml:1:43: load.turns: load.turns and load.duration are both 0: the run would never end"},
		{"turn without end", "turn: {max_delay: 0s}\n", "",
			"scenario.yaml:1:19: turn.max_delay: with a turn detector turn.max_delay must be above 0: a turn that it takes for unfinished would never end"},
		{"delays crossed", "turn: {min_delay: 4s}\n", "",
			"scenario.yaml:1:19: turn.min_delay: turn.max_delay, 3s, is below turn.min_delay, 4s"},
		{"summary", "conversation: {summarize_above: 100}\n", "",
			"scenario.yaml:1:33: conversation.summarize_above: a summary of 120 tokens is no shorter than the 100 that it replaces"},
		{"language twice", "conversation: {languages: [en, en]}\n", "",
			`scenario.yaml:1:32: conversation.languages.1: "en" is there twice`},
		{"step without name", "agent: {steps: [{time: 1ms}]}\n", "",
			"scenario.yaml:1:17: agent.steps.0: has no name"},
		{"step's name", "agent: {tools: [{name: a b}]}\n", "",
			`scenario.yaml:1:24: agent.tools.0.name: "a b" is no name: use letters, digits, _ and -`},
		{"step twice", "agent: {steps: [{name: a}, {name: a}]}\n", "",
			`scenario.yaml:1:35: agent.steps.1.name: the name "a" is there twice`},
		{"no provider", "asr: {provider: ''}\n", "",
			"scenario.yaml:1:17: asr.provider: names no provider"},
		{"fallback without provider", "llm: {fallback: [{base: 1ms}]}\n", "",
			"scenario.yaml:1:18: llm.fallback.0: names no provider"},
		{"fallback never asked", "llm: {fallback: [{provider: a}, {provider: b}]}\n", "",
			"scenario.yaml:1:17: llm.fallback: with llm.attempts: 2 a fallback is never asked: set it to 3 or more"},
		{"temperature", "llm: {temperature: 20}\n", "",
			"scenario.yaml:1:20: llm.temperature: 20 does not lie between 0 and 2"},
		{"tab", "load:\n\tturns: 3\n", "",
			"scenario.yaml:2: not YAML: found character that cannot start any token"},
		{"unknown alias", "seed: *one\n", "",
			"scenario.yaml: not YAML: unknown anchor 'one' referenced"},
		{"two documents", "seed: 1\n---\nseed: 2\n", "",
			"scenario.yaml:2:1: a second document begins here: a scenario is one document"},
		{"merge key", "load: &l {turns: 3}\nturn: {<<: *l}\n", "",
			"scenario.yaml:2:8: turn.<<: merge keys are not supported: use an alias for a whole value, or write the keys out"},
		{"tag", "seed: !seed 1\n", "",
			"scenario.yaml:1:7: seed: the tag !seed has no meaning here"},
		{"key that is a list", "[1]: 2\n", "",
			"scenario.yaml:1:1: a key has to be a word"},
		{"latin 1", "seed: 1\ncorpus: \"Gr\xfc\xdfe\"\n", "",
			"scenario.yaml:2:12: this is not UTF-8: save the file in that encoding"},
		{"large", long, "",
			"scenario.yaml: is larger than 1 MiB: this is no scenario"},
		{"deep", "seed: " + strings.Repeat("[", 30) + strings.Repeat("]", 30), "",
			"scenario.yaml:1:31: seed" + strings.Repeat(".0", 24) + ": more than 24 levels deep: this is no scenario"},
		{"bomb", bomb, "",
			"scenario.yaml:1:27: asr.1.2.7.3.7: more than 20000 values: this is no scenario"},
		{"circle", "seed: &a [*a]\n", "",
			"scenario.yaml:1:7: seed" + strings.Repeat(".0", 12) + ": more than 24 levels deep: this is no scenario"},

		{"setting without value", "", "asr.timeout",
			"--set asr.timeout: write --set key=value, such as --set asr.timeout=800ms"},
		{"setting without unit", "", "asr.timeout=800",
			`--set asr.timeout=800: "800" is not a duration: write a number with its unit, such as 800ms`},
		{"setting of an unknown key", "", "turn.mindelay=1s",
			"--set turn.mindelay=1s: provider semantic has no such key; did you mean min_delay?"},
		{"setting below a value", "", "seed.x=1",
			`--set seed.x=1: seed has no keys: it is "1"`},
		{"setting of an entry that is not there", "", "agent.steps.1.time=1ms",
			"--set agent.steps.1.time=1ms: agent.steps is a list: its entries are called 0 to 0"},
		{"setting of an entry of nothing", "", "llm.fallback.0=1ms",
			"--set llm.fallback.0=1ms: llm.fallback is an empty list"},
		{"setting below what is set", "", "load={turns: many}",
			`--set load={turns: many}: load.turns: "many" is not a whole number`},
		{"setting out of range", "", "load.turns=0",
			"--set load.turns=0: load.turns and load.duration are both 0: the run would never end"},
		{"setting that is not YAML", "", "load={",
			"--set load={: not YAML: did not find expected node content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var settings []string
			if tt.set != "" {
				settings = []string{tt.set}
			}
			s, err := Load("scenario.yaml", []byte(tt.text), settings...)
			if err == nil {
				err = s.Turn.Decode(&semantic{})
			}
			if err == nil {
				t.Fatal("no error")
			}
			if err.Error() != tt.want {
				t.Errorf("error\n%v, want\n%s", err, tt.want)
			}
			var e *Error
			if !errors.As(err, &e) || e.Setting() != (tt.set != "") {
				t.Errorf("%#v", err)
			}
		})
	}
}

func TestLoadFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.yaml")
	if err := os.WriteFile(name, []byte("seed: 7\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if s, err := LoadFile(name, "seed=8"); err != nil || s.Seed != 8 {
		t.Errorf("%v, %v", s, err)
	}
	if s, err := LoadFile("", "seed=8"); err != nil || s.Seed != 8 {
		t.Errorf("%v, %v", s, err)
	}
	if _, err := LoadFile(dir); err == nil || err.Error() != dir+": is a folder: name the file in it" {
		t.Error(err)
	}
	if _, err := LoadFile(name + "x"); err == nil || err.Error() != name+"x: there is no such file" {
		t.Error(err)
	}
}

func TestFixed(t *testing.T) {
	s := mustLoad(t, "", "llm.temperature=null", "llm.max_tokens=0", "conversation.max_messages=6", "load.arrival=poisson", "load.rate=2.5")
	got := map[string]string{}
	for _, kv := range s.Fixed() {
		got[kv.Key] = kv.Value
	}
	for key, want := range map[string]string{
		"model": "llama-3.1-8b", "temperature": "the service's own", "max_tokens": "the service's own",
		"history": "at most 6 messages", "concurrency": "poisson, 2.5 calls/s", "corpus": "built in", "languages": "en zh", "asr": "sim",
	} {
		if got[key] != want {
			t.Errorf("%s: %q, want %q", key, got[key], want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"provider", "timeout", "temperature", "to", "final", "finalize"}
	for name, want := range map[string]string{
		"timout": "timeout", "time_out": "timeout", "TIMEOUT": "timeout", "temp": "temperature", "timeout_ms": "timeout",
		"x": "", "finel": "final", "xylophone": "", "prvoider": "provider",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

// Every key has a comment, in lines and with a full stop, and means something.
func TestDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, c := range comments() {
		documented[c.path] = true
		if !strings.HasSuffix(c.text, ".") && !strings.HasSuffix(c.text, ").") {
			t.Errorf("%s: the comment %q is no sentence", c.path, c.text)
		}
	}
	var walk func(reflect.Type, string)
	walk = func(typ reflect.Type, path string) {
		for _, k := range keysOf(typ) {
			p := join(path, k.name)
			if !documented[p] && !(strings.HasPrefix(path, "agent.") && k.name == "provider") {
				t.Errorf("%s is not in default.yaml", p)
			}
			switch {
			case k.typ == reflect.TypeFor[[]Step]():
				walk(k.typ.Elem(), p+".0")
			case k.typ.Kind() == reflect.Struct:
				walk(k.typ, p)
			}
		}
	}
	walk(reflect.TypeFor[Scenario](), "")

	if c := Comment("load.rate"); !strings.HasPrefix(c, "New calls a second.") {
		t.Errorf("the comment of load.rate is %q", c)
	}
	if !strings.Contains(Reference(), "| `load.rate` | `0` | New calls a second. Only with poisson, constant and gamma arrival. |\n") {
		t.Errorf("reference:\n%s", Reference())
	}
	for line := range strings.Lines(defaultYAML) {
		if len([]rune(line)) > 85 {
			t.Errorf("long line: %s", line)
		}
	}
}

func TestOptions(t *testing.T) {
	got := Options(&semantic{Inference: random.MustParse("uniform(1ms, 2ms)"), Finished: 0.5})
	want := []KV{{"inference", "uniform(1ms, 2ms)"}, {"finished", "0.5"}, {"false_finish", "0"}, {"model_server", "null"}}
	if !reflect.DeepEqual(got, want) || Options(nil) != nil {
		t.Errorf("%v", got)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(defaultYAML, "seed=1")
	f.Add("load: &a {turns: 3}\nasr: {timeout: 1}\n", "load.turns=4")
	f.Add("agent: {steps: [{name: a, time: 3ms}]}\n---\n", "agent.steps.0.time=1")
	f.Add("turn: {model_server: {replicas: 2, headers: {a: b}}}\n", "turn.provider=x")
	f.Add("corpus: \"\\u2028\\n \\t\"\n", "corpus='a: b'")
	f.Add("llm: {fallback: [{provider: a, 'b c': !!str 3}], temperature: ~}\n", "llm.fallback.0={provider: c}")
	f.Fuzz(func(t *testing.T, text, set string) {
		s, err := Load("f.yaml", []byte(text), set)
		if err == nil {
			err = s.Turn.Decode(&semantic{})
		}
		if err != nil {
			if e := new(Error); !errors.As(err, &e) || e.Source == defaultSource {
				t.Errorf("%q, --set %q: %v", text, set, err)
			}
			return
		}
		out := s.YAML()
		again, err := Load("again.yaml", []byte(out))
		if err != nil {
			t.Fatalf("%q, --set %q: %v in\n%s", text, set, err, out)
		}
		if again.YAML() != out || !reflect.DeepEqual(withoutNodes(again), withoutNodes(s)) {
			t.Errorf("%q, --set %q: not the same again:\n%s", text, set, out)
		}
	})
}
