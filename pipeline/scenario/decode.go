package scenario

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	blockType    = reflect.TypeFor[Block]()
	durationType = reflect.TypeFor[time.Duration]()
)

// A key is a field of a struct that a scenario can set: one with a yaml tag.
type key struct {
	name  string
	index []int
	typ   reflect.Type
}

// keysOf returns the keys of the struct t, those of embedded structs, and of
// fields with the tag ",inline", among them, in order.
func keysOf(t reflect.Type) []key {
	var keys []key
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if (f.Anonymous || rest == "inline") && name == "" && f.Type.Kind() == reflect.Struct {
			for _, k := range keysOf(f.Type) {
				k.index = append(slices.Clone(f.Index), k.index...)
				keys = append(keys, k)
			}
		} else if name != "" && name != "-" {
			keys = append(keys, key{name, f.Index, f.Type})
		}
	}
	return keys
}

func names(keys []key) []string {
	s := make([]string, len(keys))
	for i, k := range keys {
		s[i] = k.name
	}
	return s
}

func findKey(keys []key, name string) (key, bool) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return key{}, false
	}
	return keys[i], true
}

// isBlock says whether t is a block: Block itself, or a struct that embeds it.
// A block has keys of its own beside those of its provider.
func isBlock(t reflect.Type) bool {
	if t == nil || t.Kind() != reflect.Struct {
		return false
	}
	f, ok := t.FieldByName("Block")
	return t == blockType || ok && f.Anonymous && f.Type == blockType
}

// decode stores n in v. What n does not mention stays as it is.
func decode(n *node, v reflect.Value, path string) error {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer:
		if n.kind == scalar && n.null {
			v.SetZero()
			return nil
		}
		p := reflect.New(t.Elem())
		if !v.IsNil() {
			p.Elem().Set(v.Elem())
		}
		if err := decode(n, p.Elem(), path); err != nil {
			return err
		}
		v.Set(p)
		return nil
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		if err := needScalar(n, path); err != nil {
			return err
		}
		return n.wrap(path, v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.text)))
	}
	if p, ok := v.Addr().Interface().(profile); ok {
		return decodeProfile(n, v, p, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return decodeStruct(n, v, path)
	case reflect.Slice:
		return decodeList(n, v, path)
	case reflect.Map:
		return decodeMap(n, v, path)
	case reflect.Interface:
		x, err := n.plainValue(path)
		if err == nil {
			v.Set(reflect.ValueOf(x))
		}
		return err
	}
	if err := needScalar(n, path); err != nil {
		return err
	}
	return n.wrap(path, decodeScalar(n.text, v))
}

// wrap says of which value and where err is.
func (n *node) wrap(path string, err error) error {
	if err == nil {
		return nil
	}
	hint := ""
	if strings.Contains(n.text, "(") && !strings.Contains(n.text, ")") {
		hint = "; inside { } and [ ] put it in quotes, since a comma ends a value there"
	}
	return n.at.errorf(path, "%s", err.Error()+hint)
}

func needScalar(n *node, path string) error {
	switch {
	case n.kind != scalar:
		return n.at.errorf(path, "one value is needed here, not %s", n.what())
	case n.null:
		return n.at.errorf(path, "has no value: give it one, or leave the key out")
	}
	return nil
}

func decodeScalar(text string, v reflect.Value) error {
	if v.Type() == durationType {
		d, err := parseDuration(text)
		v.SetInt(int64(d))
		return err
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%s is not true or false", quote(text))
		}
		v.SetBool(text == "true")
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return wholeNumber(text, err)
		}
		v.SetInt(i)
		return nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if strings.HasPrefix(text, "-") {
			return fmt.Errorf("%s is negative", text)
		}
		u, err := strconv.ParseUint(text, 10, v.Type().Bits())
		if err != nil {
			return wholeNumber(text, err)
		}
		v.SetUint(u)
		return nil
	case reflect.Float32, reflect.Float64:
		f, err := parseNumber(text)
		v.SetFloat(f)
		return err
	}
	panic(fmt.Sprintf("scenario: an option cannot have the type %v", v.Type()))
}

func wholeNumber(text string, err error) error {
	if e := err.(*strconv.NumError); e.Err == strconv.ErrRange {
		return fmt.Errorf("%s is too large", quote(text))
	}
	return fmt.Errorf("%s is not a whole number", quote(text))
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		return 0, fmt.Errorf("%s is negative", quote(text))
	}
	if err == nil {
		return d, nil
	}
	such := "250ms or 1.5s"
	if f, err := strconv.ParseFloat(text, 64); err == nil && f > 0 {
		such = text + "ms"
		if f < 10 {
			such = text + "s"
		}
	}
	return 0, fmt.Errorf("%s is not a duration: write a number with its unit, such as %s", quote(text), such)
}

func parseNumber(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) && !strings.ContainsAny(text, "xX_") {
		return f, nil
	}
	if p, ok := strings.CutSuffix(text, "%"); ok {
		if f, err := strconv.ParseFloat(p, 64); err == nil {
			return 0, fmt.Errorf("%s is not a number: write %v", quote(text), f/100)
		}
	}
	return 0, fmt.Errorf("%s is not a number", quote(text))
}

func decodeStruct(n *node, v reflect.Value, path string) error {
	keys := keysOf(v.Type())
	block := isBlock(v.Type())
	if block {
		b := v
		if v.Type() != blockType {
			b = v.FieldByName("Block")
		}
		own := b.Addr().Interface().(*Block)
		own.path, own.node, own.generic = path, n, names(keys)
	}
	return decodeKeys(n, path, func(f field) (reflect.Value, error) {
		if k, ok := findKey(keys, f.key); ok {
			return v.FieldByIndex(k.index), nil
		}
		if block { // Block.Decode sees to it
			return reflect.Value{}, nil
		}
		return reflect.Value{}, unknownKey(f, path, names(keys), "")
	})
}

// A profile is a group of options that can begin as one that has a name: a
// scenario writes the name alone, or "like: name" among the keys.
type profile interface{ Like(name string) error }

// decodeProfile stores n, which may name a profile, in v, which p points to.
func decodeProfile(n *node, v reflect.Value, p profile, path string) error {
	if n.kind == scalar && !n.null {
		return n.wrap(path, p.Like(n.text))
	}
	like := n.get("like")
	if like == nil {
		return decodeStruct(n, v, path)
	}
	if err := needScalar(like, join(path, "like")); err != nil {
		return err
	}
	if err := like.wrap(join(path, "like"), p.Like(like.text)); err != nil {
		return err
	}
	own := *n
	own.fields = slices.DeleteFunc(slices.Clone(n.fields), func(f field) bool { return f.key == "like" })
	return decodeStruct(&own, v, path)
}

// decodeKeys stores each key of n where target says: nowhere for the zero
// Value.
func decodeKeys(n *node, path string, target func(field) (reflect.Value, error)) error {
	if n.kind == scalar && n.null { // "load:" and nothing below it
		return nil
	}
	if n.kind != group {
		return n.at.errorf(path, "a group of keys is needed here, not %s", n.what())
	}
	for _, f := range n.fields {
		v, err := target(f)
		if err != nil {
			return err
		}
		if v.IsValid() {
			if err := decode(f.value, v, join(path, f.key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// unknownKey says that there is no key f, which is none of keys. The owner is
// who has keys, where the path does not say it.
func unknownKey(f field, path string, keys []string, owner string) error {
	what := "there is no such key"
	if owner != "" {
		what = owner + " has no such key"
	}
	full := join(path, f.key)
	if strings.HasSuffix(f.key, ")") && f.value.null {
		return f.at.errorf(full, "%s; inside { } put a distribution in quotes, since a comma ends a value there", what)
	}
	if near := Nearest(f.key, keys); near != "" {
		return f.at.errorf(full, "%s; did you mean %s?", what, near)
	}
	others := slices.DeleteFunc(pathsTo(f.key), func(p string) bool { return p == full })
	if len(others) > 0 {
		return f.at.errorf(full, "%s here; it is %s", what, strings.Join(others, " or "))
	}
	return f.at.errorf(full, "%s; there are %s", what, strings.Join(keys, ", "))
}

func decodeList(n *node, v reflect.Value, path string) error {
	if n.kind != list {
		if n.kind == scalar && !n.null {
			return n.at.errorf(path, "a list is needed here, such as [%s]", n.text)
		}
		return n.at.errorf(path, "a list is needed here, not %s; an empty one is []", n.what())
	}
	items := reflect.Zero(v.Type())
	for i, item := range n.items {
		x := reflect.New(v.Type().Elem()).Elem()
		if err := decode(item, x, join(path, strconv.Itoa(i))); err != nil {
			return err
		}
		items = reflect.Append(items, x)
	}
	v.Set(items)
	return nil
}

// decodeMap adds the keys of n to a map from strings.
func decodeMap(n *node, v reflect.Value, path string) error {
	m := reflect.MakeMap(v.Type())
	for it := v.MapRange(); it.Next(); {
		m.SetMapIndex(it.Key(), it.Value())
	}
	if n.kind == scalar && n.null {
		return nil
	}
	if n.kind != group {
		return n.at.errorf(path, "a group of keys is needed here, not %s", n.what())
	}
	for _, f := range n.fields {
		x := reflect.New(v.Type().Elem()).Elem()
		if err := decode(f.value, x, join(path, f.key)); err != nil {
			return err
		}
		m.SetMapIndex(reflect.ValueOf(f.key).Convert(v.Type().Key()), x)
	}
	v.Set(m)
	return nil
}

// plainValue returns n as what YAML takes it for, for options that are passed on
// as they are: a text, a truth value, a number, a list or a group.
func (n *node) plainValue(path string) (any, error) {
	switch n.kind {
	case list:
		all := []any{}
		for i, item := range n.items {
			x, err := item.plainValue(join(path, strconv.Itoa(i)))
			if err != nil {
				return nil, err
			}
			all = append(all, x)
		}
		return all, nil
	case group:
		all := map[string]any{}
		for _, f := range n.fields {
			x, err := f.value.plainValue(join(path, f.key))
			if err != nil {
				return nil, err
			}
			all[f.key] = x
		}
		return all, nil
	}
	if err := needScalar(n, path); err != nil {
		return nil, err
	}
	switch n.tag {
	case "!!bool":
		var b bool
		err := n.wrap(path, decodeScalar(n.text, reflect.ValueOf(&b).Elem()))
		return b, err
	case "!!int":
		var i int
		err := n.wrap(path, decodeScalar(n.text, reflect.ValueOf(&i).Elem()))
		return i, err
	case "!!float":
		var f float64
		err := n.wrap(path, decodeScalar(n.text, reflect.ValueOf(&f).Elem()))
		return f, err
	}
	return n.text, nil
}

// encode returns v as a node: the inverse of decode.
func encode(v reflect.Value) *node {
	t := v.Type()
	switch {
	case t.Kind() == reflect.Pointer, t.Kind() == reflect.Interface:
		if v.IsNil() {
			return &node{null: true}
		}
		return encode(v.Elem())
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			panic(fmt.Sprintf("scenario: %v: %v", t, err))
		}
		return plain(string(text))
	case t == durationType:
		return plain(time.Duration(v.Int()).String())
	}
	switch t.Kind() {
	case reflect.Struct:
		n := &node{kind: group}
		for _, k := range keysOf(t) {
			n.set(field{key: k.name, value: encode(v.FieldByIndex(k.index))})
		}
		return n
	case reflect.Slice:
		n := &node{kind: list}
		for i := range v.Len() {
			n.items = append(n.items, encode(v.Index(i)))
		}
		return n
	case reflect.Map:
		n := &node{kind: group}
		keys := map[string]*node{}
		for it := v.MapRange(); it.Next(); {
			keys[it.Key().String()] = encode(it.Value())
		}
		for _, name := range slices.Sorted(maps.Keys(keys)) {
			n.set(field{key: name, value: keys[name]})
		}
		return n
	case reflect.String:
		return plain(v.String())
	case reflect.Bool:
		return &node{tag: "!!bool", text: strconv.FormatBool(v.Bool())}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &node{tag: "!!int", text: strconv.FormatInt(v.Int(), 10)}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &node{tag: "!!int", text: strconv.FormatUint(v.Uint(), 10)}
	case reflect.Float32, reflect.Float64:
		n := &node{tag: "!!float", text: strconv.FormatFloat(v.Float(), 'g', -1, t.Bits())}
		if !strings.ContainsAny(n.text, ".e") {
			n.tag = "!!int" // or it would be written with its tag
		}
		return n
	}
	panic(fmt.Sprintf("scenario: an option cannot have the type %v", t))
}

// plain returns a text as a node.
func plain(text string) *node {
	if text == "0" { // a distribution; it needs no quotes
		return &node{tag: "!!int", text: text}
	}
	return &node{tag: "!!str", text: text}
}
