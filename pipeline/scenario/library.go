package scenario

import (
	"embed"
	"strings"
)

//go:embed library/*.yaml
var library embed.FS

// Library returns the names of the ready scenarios, sorted.
func Library() []string {
	files, _ := library.ReadDir("library")
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(f.Name(), ".yaml")
	}
	return names
}

// LibraryYAML returns a ready scenario as it is documented, and whether there is
// one of that name.
func LibraryYAML(name string) (string, bool) {
	data, err := library.ReadFile("library/" + name + ".yaml")
	return string(data), err == nil
}
