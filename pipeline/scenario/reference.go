package scenario

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// A comment is what the default scenario says about a key, and how it is
// written there.
type comment struct{ path, value, text string }

// comments returns the keys of the default scenario, in order.
var comments = sync.OnceValue(readComments)

// readComments reads them. The comment of a key is in the lines above it.
func readComments() []comment {
	root, err := readYAML(defaultSource, []byte(defaultYAML))
	if err != nil {
		panic(err) // a test reads it too
	}
	lines := strings.Split(defaultYAML, "\n")
	var all []comment
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		for _, f := range n.fields {
			all = append(all, comment{join(path, f.key), f.value.short(), above(lines, f.at.line)})
			walk(f.value, join(path, f.key))
		}
		for i, item := range n.items {
			walk(item, join(path, strconv.Itoa(i)))
		}
	}
	walk(root, "")
	return all
}

// above returns the comment above a line, counted from 1.
func above(lines []string, line int) string {
	text := ""
	for i := line - 2; i >= 0; i-- {
		s, ok := strings.CutPrefix(strings.TrimSpace(lines[i]), "#")
		if !ok {
			break
		}
		text = strings.TrimSpace(s) + " " + text
	}
	return strings.TrimSpace(text)
}

// short returns n as one would write it behind its key; a group, and a list of
// groups, as nothing.
func (n *node) short() string {
	if n.kind == group || n.kind == list && len(n.items) > 0 && n.items[0].kind == group {
		return ""
	}
	return strings.TrimSuffix(n.write(), "\n")
}

// Comment returns what the default scenario says about the key at a path, or
// "".
func Comment(path string) string {
	for _, c := range comments() {
		if c.path == path {
			return c.text
		}
	}
	return ""
}

// Reference returns a table in Markdown of all keys of the default scenario,
// what they are set to, and what they mean.
func Reference() string {
	var b strings.Builder
	b.WriteString("| key | default | meaning |\n|---|---|---|\n")
	for _, c := range comments() {
		value := ""
		if c.value != "" {
			value = "`" + c.value + "`"
		}
		b.WriteString("| `" + cell(c.path) + "` | " + cell(value) + " | " + cell(c.text) + " |\n")
	}
	return b.String()
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// Options returns the keys of a provider's options and their values, as a
// scenario writes them. Options is a struct, a pointer to one, or nil.
func Options(options any) []KV {
	if options == nil {
		return nil
	}
	var all []KV
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		for _, f := range n.fields {
			if f.value.kind == group {
				walk(f.value, join(path, f.key))
			} else {
				all = append(all, KV{join(path, f.key), strings.TrimSuffix(f.value.write(), "\n")})
			}
		}
	}
	walk(encode(reflect.Indirect(reflect.ValueOf(options))), "")
	return all
}

// pathsTo returns the paths of all keys of the default scenario with a name,
// those of a list's entries aside.
func pathsTo(name string) []string {
	var paths []string
	for _, c := range comments() {
		if strings.HasSuffix(c.path, "."+name) && !strings.Contains(c.path, ".0.") {
			paths = append(paths, c.path)
		}
	}
	return paths
}
