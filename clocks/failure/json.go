package failure

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// JSON returns what is wrong with text that came as JSON, which json.Unmarshal took
// with err: what it was (a message, the body), the key or the byte, and the beginning
// of the text. err is not nil.
func JSON(what string, text []byte, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Errorf("%s is wrong: %s is %s, and should be %s, at byte %d: %s", what, wrong.Field, kinds(wrong.Value), wanted(wrong.Type), wrong.Offset, Quoted(text))
	case errors.As(err, &wrong):
		return fmt.Errorf("%s is wrong: it is %s, and should be %s: %s", what, kinds(wrong.Value), wanted(wrong.Type), Quoted(text))
	case errors.As(err, &syntax):
		return fmt.Errorf("%s is no JSON: %w, at byte %d: %s", what, err, syntax.Offset, Quoted(text))
	}
	return fmt.Errorf("%s is wrong: %w: %s", what, err, Quoted(text))
}

// kinds is a value of JSON as encoding/json names it, with its article.
func kinds(value string) string {
	switch value {
	case "array", "object":
		return "an " + value
	}
	return "a " + value // a number comes with its digits
}

// wanted is what JSON calls a type.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[json.Number]():
		return "a number"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "a string of base64"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a whole number of %d bits", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	}
	return "an object"
}

// Quoted returns text from outside for a message, cut where it is long.
func Quoted(text []byte) string {
	const most = 200
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}
	return fmt.Sprintf("%q", text)
}
