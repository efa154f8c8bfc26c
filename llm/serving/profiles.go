package serving

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// UnmarshalYAML reads a profile: the name of a built-in one, or a mapping of
// GPU's fields, where `like: h100-sxm` says what the fields left out are.
func (g *GPU) UnmarshalYAML(n *yaml.Node) error {
	type plain GPU
	return unmarshalProfile(n, FindGPU, func(d *yaml.Decoder, like GPU) error {
		*g = like
		err := d.Decode((*plain)(g))
		if g.Name == "" || g.Name == like.Name {
			g.Name, g.Note = "own", ""
		}
		return err
	}, g)
}

// Like makes g the built-in card of a name, to be changed.
func (g *GPU) Like(name string) error {
	like, err := FindGPU(name)
	if err == nil {
		*g = like
		g.Name, g.Note = "own", ""
	}
	return err
}

// UnmarshalYAML reads a shape: the name of a built-in one, or a mapping of
// Model's fields, where `like: llama-3.1-8b` says what the fields left out are.
func (m *Model) UnmarshalYAML(n *yaml.Node) error {
	type plain Model
	return unmarshalProfile(n, FindModel, func(d *yaml.Decoder, like Model) error {
		*m = like
		err := d.Decode((*plain)(m))
		if m.Name == "" || m.Name == like.Name {
			m.Name = "own"
		}
		return err
	}, m)
}

// Like makes m the built-in shape of a name, to be changed.
func (m *Model) Like(name string) error {
	like, err := FindModel(name)
	if err == nil {
		*m = like
		m.Name = "own"
	}
	return err
}

func unmarshalProfile[T interface{ Check() error }](n *yaml.Node, find func(string) (T, error), decode func(*yaml.Decoder, T) error, to *T) error {
	if n.Kind == yaml.ScalarNode {
		v, err := find(n.Value)
		if err == nil {
			*to = v
		}
		return err
	}
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("line %d: a name, or a mapping of a profile's fields is expected", n.Line)
	}
	var like T
	own := *n
	own.Content = nil
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value != "like" {
			own.Content = append(own.Content, n.Content[i], n.Content[i+1])
			continue
		}
		var err error
		if like, err = find(n.Content[i+1].Value); err != nil {
			return err
		}
	}
	text, err := yaml.Marshal(&own) // a Node decodes without regard to unknown fields; text does not
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := decode(d, like); err != nil {
		return fmt.Errorf("profile at line %d: %w", n.Line, err)
	}
	return (*to).Check()
}
