package serving

import (
	"fmt"
	"slices"
	"strings"
)

// A Model is the shape of a dense transformer, which is all that its speed
// depends on here.
type Model struct {
	Name   string  `yaml:"name"`
	Blocks float64 `yaml:"blocks"` // parameters of all layers, 10⁹
	Head   float64 `yaml:"head"`   // parameters of the output matrix, 10⁹
	Tied   bool    `yaml:"tied"`   // the input embedding is the output matrix, and takes no memory of its own

	Layers  int `yaml:"layers"`
	Heads   int `yaml:"heads"`    // of the queries
	KVHeads int `yaml:"kv_heads"` // of keys and values
	HeadDim int `yaml:"head_dim"` // numbers in a head
	Hidden  int `yaml:"hidden"`   // numbers in what passes between layers
}

// models are the shapes of docs/models.md; Hidden and Tied are from the
// models' published config.json.
var models = []Model{
	{"llama-3.1-8b", 6.98, .525, false, 32, 32, 8, 128, 4096},
	{"llama-3.1-70b", 68.5, 1.05, false, 80, 64, 8, 128, 8192},
	{"qwen3-32b", 31.2, .778, false, 64, 64, 8, 128, 5120},
	{"qwen3-14b", 13.2, .778, false, 40, 40, 8, 128, 5120},
	{"qwen2.5-7b", 6.53, .545, false, 28, 28, 4, 128, 3584},
	{"mistral-nemo-12b", 11.0, .671, false, 40, 32, 8, 128, 5120},
	{"llama-2-7b", 6.48, .131, false, 32, 32, 32, 128, 4096},
	{"yi-34b", 33.5, .459, false, 60, 56, 8, 128, 7168},
	{"qwen2.5-0.5b", .358, .136, true, 24, 14, 2, 64, 896},
}

// Models returns the built-in shapes.
func Models() []Model { return slices.Clone(models) }

// FindModel returns the built-in shape of that name.
func FindModel(name string) (Model, error) {
	names := make([]string, len(models))
	for i, m := range models {
		if m.Name == name {
			return m, nil
		}
		names[i] = m.Name
	}
	return Model{}, fmt.Errorf("no model is called %q; there are %s, or write a shape of your own", name, strings.Join(names, ", "))
}

// Check says what is wrong with a shape.
func (m Model) Check() error {
	for _, c := range []struct {
		name             string
		value, low, high float64
	}{
		{"blocks", m.Blocks, 1e-6, 1e5}, {"head", m.Head, 0, 1e3},
		{"layers", float64(m.Layers), 1, 1e4}, {"heads", float64(m.Heads), 1, 1e4}, {"kv_heads", float64(m.KVHeads), 1, float64(m.Heads)},
		{"head_dim", float64(m.HeadDim), 1, 1e5}, {"hidden", float64(m.Hidden), 1, 1e7},
	} {
		if !(c.value >= c.low && c.value <= c.high) {
			return fmt.Errorf("model %q: %s is %g; it has to lie between %g and %g", m.Name, c.name, c.value, c.low, c.high)
		}
	}
	return nil
}

// parameters returns all of them.
func (m Model) parameters() float64 {
	if m.Tied {
		return (m.Blocks + m.Head) * 1e9
	}
	return (m.Blocks + 2*m.Head) * 1e9
}

// kvNumbers returns how many numbers a token keeps in the KV cache.
func (m Model) kvNumbers() float64 { return float64(2 * m.Layers * m.KVHeads * m.HeadDim) }
