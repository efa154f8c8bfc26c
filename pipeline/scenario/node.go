package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of what a scenario may hold, so that a bad file cannot use up the
// memory or the stack. The default scenario has about 150 values.
const (
	maxBytes = 1 << 20
	maxNodes = 20_000 // aliases count as often as they are used
	maxDepth = 24
)

// A node is a value of a scenario as it was written, and where that was. What
// type it has is decided by who reads it.
type node struct {
	kind   kind
	text   string  // of a scalar
	null   bool    // of a scalar: no value was given
	tag    string  // of a scalar: what YAML takes it for, when written without quotes
	fields []field // of a group, in order
	items  []*node // of a list
	at     place
}

type kind int

const (
	scalar kind = iota
	list
	group
)

// A field is a key of a group and its value.
type field struct {
	key   string
	at    place
	value *node
}

// A place is where something was written. Without a line, it is the source as a
// whole.
type place struct {
	source       string
	line, column int
}

// get returns the value of a key of a group, or nil.
func (n *node) get(key string) *node {
	if n != nil {
		for _, f := range n.fields {
			if f.key == key {
				return f.value
			}
		}
	}
	return nil
}

// set gives a key of a group a value, behind the other keys if it is new.
func (n *node) set(f field) {
	for i := range n.fields {
		if n.fields[i].key == f.key {
			n.fields[i] = f
			return
		}
	}
	n.fields = append(n.fields, f)
}

// find returns the value at a path such as "agent.steps.0.time", or nil.
func (n *node) find(path string) *node {
	for key := range strings.SplitSeq(path, ".") {
		if n == nil {
			return nil
		}
		if n.kind != list {
			n = n.get(key)
		} else if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.items) {
			n = n.items[i]
		} else {
			n = nil
		}
	}
	return n
}

// what says what n is, for messages.
func (n *node) what() string {
	switch {
	case n.kind == list:
		return "a list"
	case n.kind == group:
		return "a group of keys"
	case n.null:
		return "nothing"
	}
	return quote(n.text)
}

// quote puts the beginning of text in quotes.
func quote(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		text = string(r[:most]) + "…"
	}
	return strconv.Quote(text)
}

// readYAML reads a document. An empty one is an empty group.
func readYAML(source string, data []byte) (*node, error) {
	at := place{source: source}
	if len(data) > maxBytes {
		return nil, at.errorf("", "is larger than 1 MiB: this is no scenario")
	}
	if i := invalidUTF8(data); i >= 0 {
		at.line = 1 + bytes.Count(data[:i], []byte("\n"))
		at.column = 1 + utf8.RuneCount(data[bytes.LastIndexByte(data[:i], '\n')+1:i])
		return nil, at.errorf("", "this is not UTF-8: save the file in that encoding")
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return &node{kind: group, at: at}, nil
	}
	if err != nil {
		return nil, syntaxError(source, err)
	}
	r := reader{source: source}
	n, err := r.read(doc.Content[0], "", 0)
	if err != nil {
		return nil, err
	}
	switch err := d.Decode(&second); {
	case err == nil:
		at.line, at.column = second.Line, second.Column
		return nil, at.errorf("", "a second document begins here: a scenario is one document")
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(source, err)
	}
	return n, nil
}

// invalidUTF8 returns where data stops being UTF-8, or −1.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// syntaxError puts an error of the YAML library into our form.
func syntaxError(source string, err error) error {
	at := place{source: source}
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		at.line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	return at.errorf("", "not YAML: %s", text)
}

// A reader turns what the YAML library read into nodes.
type reader struct {
	source string
	nodes  int
}

func (r *reader) read(y *yaml.Node, path string, depth int) (*node, error) {
	at := place{r.source, y.Line, y.Column}
	if r.nodes++; r.nodes > maxNodes {
		return nil, at.errorf(path, "more than %d values: this is no scenario", maxNodes)
	}
	if depth > maxDepth {
		return nil, at.errorf(path, "more than %d levels deep: this is no scenario", maxDepth)
	}
	switch y.Kind {
	case yaml.AliasNode:
		return r.read(y.Alias, path, depth+1)
	case yaml.SequenceNode:
		n := &node{kind: list, at: at}
		for i, item := range y.Content {
			v, err := r.read(item, join(path, strconv.Itoa(i)), depth+1)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, v)
		}
		return n, nil
	case yaml.MappingNode:
		return r.readGroup(y, path, depth)
	}
	n := &node{kind: scalar, text: y.Value, tag: y.ShortTag(), at: at}
	switch n.tag {
	case "!!null":
		n.null = true
	case "!!str", "!!int", "!!float", "!!bool":
	case "!!timestamp":
		n.tag = "!!str"
	default:
		return nil, at.errorf(path, "the tag %s has no meaning here", n.tag)
	}
	return n, nil
}

func (r *reader) readGroup(y *yaml.Node, path string, depth int) (*node, error) {
	n := &node{kind: group, at: place{r.source, y.Line, y.Column}}
	lines := map[string]int{}
	for i := 0; i < len(y.Content); i += 2 {
		k := y.Content[i]
		at := place{r.source, k.Line, k.Column}
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode || len(k.Value) > 100 {
			return nil, at.errorf(path, "a key has to be a word")
		}
		key := join(path, k.Value)
		if k.ShortTag() == "!!merge" {
			return nil, at.errorf(key, "merge keys are not supported: use an alias for a whole value, or write the keys out")
		}
		if first, twice := lines[k.Value]; twice {
			return nil, at.errorf(key, "given twice, first in line %d", first)
		}
		lines[k.Value] = at.line
		v, err := r.read(y.Content[i+1], key, depth+1)
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, field{k.Value, at, v})
	}
	return n, nil
}

// join appends a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// yaml returns n for the YAML library to write.
func (n *node) yaml() *yaml.Node {
	switch n.kind {
	case group:
		y := &yaml.Node{Kind: yaml.MappingNode}
		for _, f := range n.fields {
			y.Content = append(y.Content, textNode(f.key), f.value.yaml())
		}
		return y
	case list:
		y := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range n.items {
			y.Content = append(y.Content, item.yaml())
		}
		if !slices.ContainsFunc(n.items, func(n *node) bool { return n.kind != scalar }) {
			y.Style = yaml.FlowStyle
		}
		return y
	}
	switch {
	case n.null:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}
	case n.tag == "!!str":
		return textNode(n.text)
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: n.tag, Value: n.text}
}

// textNode returns text for the YAML library to write: in double quotes if
// there is anything unusual in it, since its other styles do not bring every
// text back.
func textNode(text string) *yaml.Node {
	y := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(text) != text {
		y.Style = yaml.DoubleQuotedStyle
	}
	return y
}

// write returns n as YAML.
func (n *node) write() string {
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(n.yaml())
	if err = errors.Join(err, e.Close()); err != nil {
		panic(fmt.Sprintf("scenario: %v", err)) // a strings.Builder takes everything
	}
	return b.String()
}
