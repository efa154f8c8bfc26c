package scenario

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lay lays over, which is written for a value of type t, over base: groups
// merge, all else replaces. It returns the result and leaves both as they are.
// The type is nil where only a provider knows it.
func lay(base, over *node, t reflect.Type) *node {
	if base == nil || over.kind != group || base.kind != group {
		if base != nil && base.kind == group && over.kind == scalar && over.null && !over.removes(t) {
			return base // "load:" and nothing below it
		}
		return over
	}
	n := &node{kind: group, at: base.at, fields: slices.Clone(base.fields)}
	if isBlock(t) {
		if p := over.get("provider"); p != nil && p.text != base.get("provider").value() {
			n.fields = slices.DeleteFunc(n.fields, func(f field) bool {
				_, generic := findKey(keysOf(t), f.key)
				return !generic
			})
		}
	}
	for _, f := range over.fields {
		f.value = lay(n.get(f.key), f.value, typeOfKey(t, f.key))
		n.set(f)
	}
	return n
}

// removes says whether n, laid over a group of type t, takes it away: a null that
// is written out, where a group may be missing. (The type nil is a provider's, who
// will say so if it may not.)
func (n *node) removes(t reflect.Type) bool {
	return n.null && n.text != "" && (t == nil || t.Kind() == reflect.Pointer)
}

// value returns the text of a scalar that may be missing.
func (n *node) value() string {
	if n == nil {
		return ""
	}
	return n.text
}

// typeOfKey returns the type of a key of a group, or of an entry of a list, of
// type t; nil if t does not tell.
func typeOfKey(t reflect.Type, name string) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
	case t.Kind() == reflect.Struct:
		if k, ok := findKey(keysOf(t), name); ok {
			return k.typ
		}
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
		return t.Elem()
	}
	return nil
}

// A setting is a value for one key, from the command line.
type setting struct {
	at   place
	keys []string
	node *node
}

// parseSetting reads "key.path=value", where the value is YAML.
func parseSetting(text string) (setting, error) {
	s := setting{at: place{source: settingPrefix + strings.ToValidUTF8(text, "�")}}
	if !utf8.ValidString(text) {
		return s, s.at.errorf("", "this is not UTF-8")
	}
	path, value, ok := strings.Cut(text, "=")
	s.keys = strings.Split(path, ".")
	if !ok || slices.Contains(s.keys, "") || len(s.keys) > maxDepth || len(path) > 1000 {
		return s, s.at.errorf("", "write --set key=value, such as --set asr.timeout=800ms")
	}
	if strings.TrimSpace(value) == "" {
		s.node = &node{tag: "!!str", at: s.at}
		return s, nil
	}
	n, err := readYAML(s.at.source, []byte(value))
	if err != nil {
		if e, ok := err.(*Error); ok { // its line would be that within the setting
			e.Line, e.Column = 0, 0
		}
		return s, err
	}
	n.forgetLines()
	s.node = n
	return s, nil
}

// forgetLines makes all of n come from its source as a whole.
func (n *node) forgetLines() {
	n.at.line, n.at.column = 0, 0
	for i := range n.fields {
		n.fields[i].at.line, n.fields[i].at.column = 0, 0
		n.fields[i].value.forgetLines()
	}
	for _, item := range n.items {
		item.forgetLines()
	}
}

// apply returns n, which is of type t, with s in it. Depth is how many of the
// setting's keys lead to n.
func (s setting) apply(n *node, t reflect.Type, depth int) (*node, error) {
	name, last := s.keys[depth], depth == len(s.keys)-1
	switch {
	case n == nil || n.kind == scalar && n.null:
		n = &node{kind: group, at: s.at}
	case n.kind == scalar:
		return nil, s.errorf("%s has no keys: it is %s", strings.Join(s.keys[:depth], "."), n.what())
	case n.kind == list:
		return s.applyToList(n, t, depth)
	}
	if last { // lay, since a new provider changes more than its own key
		return lay(n, &node{kind: group, at: s.at, fields: []field{{name, s.at, s.node}}}, t), nil
	}
	v, err := s.apply(n.get(name), typeOfKey(t, name), depth+1)
	if err != nil {
		return nil, err
	}
	copied := *n
	copied.fields = slices.Clone(n.fields)
	copied.set(field{name, s.at, v})
	return &copied, nil
}

func (s setting) applyToList(n *node, t reflect.Type, depth int) (*node, error) {
	i, err := strconv.Atoi(s.keys[depth])
	if err != nil || i < 0 || i >= len(n.items) {
		path := strings.Join(s.keys[:depth], ".")
		if len(n.items) == 0 {
			return nil, s.errorf("%s is an empty list", path)
		}
		return nil, s.errorf("%s is a list: its entries are called 0 to %d", path, len(n.items)-1)
	}
	v := lay(n.items[i], s.node, typeOfKey(t, ""))
	if depth < len(s.keys)-1 {
		if v, err = s.apply(n.items[i], typeOfKey(t, ""), depth+1); err != nil {
			return nil, err
		}
	}
	copied := *n
	copied.items = slices.Clone(n.items)
	copied.items[i] = v
	return &copied, nil
}

func (s setting) errorf(format string, args ...any) error {
	return s.at.errorf(strings.Join(s.keys, "."), format, args...)
}
