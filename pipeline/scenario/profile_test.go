package scenario

import (
	"fmt"
	"strings"
	"testing"
)

// A card is a group of options that can begin as one with a name.
type card struct {
	Speed int `yaml:"speed"`
	Size  int `yaml:"size"`
}

func (c *card) Like(name string) error {
	if name != "big" {
		return fmt.Errorf("no card is called %q", name)
	}
	*c = card{Speed: 10, Size: 80}
	return nil
}

func TestProfiles(t *testing.T) {
	for _, test := range []struct {
		setting string
		want    card
		wrong   string
	}{
		{"vad.card=big", card{10, 80}, ""},
		{"vad.card={like: big, size: 90}", card{10, 90}, ""},
		{"vad.card={size: 90, like: big}", card{10, 90}, ""},
		{"vad.card={size: 90}", card{0, 90}, ""},
		{"vad.card={like: small}", card{}, `vad.card.like: no card is called "small"`},
		{"vad.card={like: big, sise: 1}", card{}, "did you mean size?"},
		{"vad.card={like: [big]}", card{}, "vad.card.like: one value is needed here"},
	} {
		s, err := Load("", nil, "vad.provider=x", test.setting)
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			Card *card `yaml:"card"`
		}
		err = s.VAD.Decode(&o)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%s: %v, want %q", test.setting, err, test.wrong)
			}
			continue
		}
		if err != nil || *o.Card != test.want {
			t.Errorf("%s: %+v, %v", test.setting, o.Card, err)
		}
	}
}

// A null that is written out takes a group away; a key with nothing behind it
// does not.
func TestNull(t *testing.T) {
	file := []byte("vad: {provider: x, card: {like: big}}")
	for setting, want := range map[string]bool{"vad.card=null": false, "vad.card=~": false, "vad.stop=1s": true} {
		s, err := Load("f", file, setting)
		if err != nil {
			t.Fatal(err)
		}
		var o struct {
			Card *card  `yaml:"card"`
			Stop string `yaml:"stop"`
		}
		if err := s.VAD.Decode(&o); err != nil || (o.Card != nil) != want {
			t.Errorf("%s: %+v, %v", setting, o, err)
		}
	}
	if s, err := Load("f", []byte("load:\nconversation: null\n")); err != nil || s.Load.Turns != 400 || s.Conversation.Turns != 4 {
		t.Errorf("groups that must be there: %+v, %v", s, err)
	}
}
