package failure

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSON(t *testing.T) {
	type inner struct {
		Payload string      `json:"payload"`
		Words   []string    `json:"words"`
		Data    []byte      `json:"data"`
		Digits  json.Number `json:"digits"`
	}
	var v struct {
		Event string  `json:"event"`
		Count int     `json:"count"`
		Share float64 `json:"share"`
		Last  *bool   `json:"last"`
		Media *inner  `json:"media"`
	}
	for text, want := range map[string]string{
		`{`:                         `a message is no JSON: unexpected end of JSON input, at byte 1: "{"`,
		`{"event":x}`:               `a message is no JSON: invalid character 'x' looking for beginning of value, at byte 10: "{\"event\":x}"`,
		`[]`:                        `a message is wrong: it is an array, and should be an object: "[]"`,
		`{"event":5}`:               `a message is wrong: event is a number, and should be a string, at byte 10: "{\"event\":5}"`,
		`{"count":1.5}`:             `a message is wrong: count is a number 1.5, and should be a whole number of 64 bits, at byte 12: "{\"count\":1.5}"`,
		`{"share":"x"}`:             `a message is wrong: share is a string, and should be a number, at byte 12: "{\"share\":\"x\"}"`,
		`{"last":{}}`:               `a message is wrong: last is an object, and should be true or false, at byte 9: "{\"last\":{}}"`,
		`{"media":{"payload":[1]}}`: `a message is wrong: media.payload is an array, and should be a string, at byte 21: "{\"media\":{\"payload\":[1]}}"`,
		`{"media":{"words":true}}`:  `a message is wrong: media.words is a bool, and should be an array, at byte 22: "{\"media\":{\"words\":true}}"`,
		`{"media":{"data":5}}`:      `a message is wrong: media.data is a number, and should be a string of base64, at byte 18: "{\"media\":{\"data\":5}}"`,
		`{"media":{"digits":[]}}`:   `a message is wrong: media.digits is an array, and should be a number, at byte 20: "{\"media\":{\"digits\":[]}}"`,
		`{"media":{"data":"?"}}`:    `a message is wrong: illegal base64 data at input byte 0: "{\"media\":{\"data\":\"?\"}}"`,
		strings.Repeat("x", 1000):   `a message is no JSON: invalid character 'x' looking for beginning of value, at byte 1: "` + strings.Repeat("x", 200) + `"…`,
	} {
		err := json.Unmarshal([]byte(text), &v)
		if err == nil {
			t.Fatalf("%s is taken", text)
		}
		if got := JSON("a message", []byte(text), err).Error(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", text, got, want)
		}
	}
}
