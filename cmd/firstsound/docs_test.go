package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"firstsound/clocks/trace"
	"firstsound/pipeline/report"
	"firstsound/pipeline/scenario"
)

// updating says whether the test was told to write files anew.
func updating() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// TestGeneratedDocs holds the tables of docs/ against the code.
func TestGeneratedDocs(t *testing.T) {
	blocks := map[string]string{
		"marks":    marksTable(t),
		"stages":   stagesTable(),
		"metrics":  metricsTable(),
		"outcomes": outcomesTable(t),
		"run":      fieldsTable(t, reflect.TypeFor[report.RunInfo](), "runinfo.go", "RunInfo"),
		"events":   eventsTable(),
		"turns":    fieldsTable(t, reflect.TypeFor[report.TurnRow](), "turnrow.go", "TurnRow"),
		"scenario": scenario.Reference(),
	}
	pattern := regexp.MustCompile(`(?s)<!-- generated: (\w+) -->\n.*?<!-- /generated -->`)
	used := map[string]bool{}
	files, _ := filepath.Glob(root + "/docs/*.md")
	for _, name := range files {
		old, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fresh := pattern.ReplaceAllFunc(old, func(block []byte) []byte {
			key := string(pattern.FindSubmatch(block)[1])
			used[key] = true
			return fmt.Appendf(nil, "<!-- generated: %s -->\n%s\n<!-- /generated -->", key, strings.TrimSpace(blocks[key]))
		})
		if bytes.Equal(old, fresh) {
			continue
		}
		if !updating() {
			t.Errorf("%s is not what the code says: go test ./cmd/firstsound -update", name)
		} else if err := os.WriteFile(name, fresh, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for key := range blocks {
		if !used[key] {
			t.Errorf("no file in docs/ has the table %q", key)
		}
	}
}

// constants calls f with each string constant of a type in a file, and its
// comment.
func constants(t *testing.T, file, typ string, f func(value, comment string)) {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := spec.Type.(*ast.Ident); ok && id.Name == typ && len(spec.Values) == 1 {
			n++
			f(strings.Trim(spec.Values[0].(*ast.BasicLit).Value, `"`), strings.TrimSpace(spec.Comment.Text()))
		}
		return true
	})
	if n == 0 {
		t.Fatalf("%s has no constants of type %s", file, typ)
	}
}

func marksTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| mark | the moment when |\n|---|---|\n")
	constants(t, "clocks/trace/trace.go", "Mark", func(value, comment string) {
		if comment == "" {
			t.Errorf("mark %s has no comment", value)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", value, comment)
	})
	return b.String()
}

func stagesTable() string {
	var names []string
	for _, s := range trace.Stages {
		if s == trace.StageAgent {
			s += ".<step>"
		}
		names = append(names, "`"+string(s)+"`")
	}
	return "The stages: " + strings.Join(names, ", ") + "."
}

func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | key | unit | definition |\n|---|---|---|---|\n")
	for _, m := range report.Metrics {
		fmt.Fprintf(&b, "| %s | `%s` | %s | %s |\n", m.Title, m.Key, m.Unit, m.Means)
	}
	return b.String()
}

func outcomesTable(t *testing.T) string {
	var b strings.Builder
	b.WriteString("| outcome | meaning |\n|---|---|\n")
	constants(t, "pipeline/report/turn.go", "Outcome", func(value, comment string) {
		if value == "failed" {
			value = "failed:<kind>"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", value, comment)
	})
	return b.String()
}

// fieldsTable lists the JSON keys of a struct with the comments of its fields.
func fieldsTable(t *testing.T, typ reflect.Type, file, name string) string {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "pipeline/report", file), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok || spec.Name.Name != name {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			comments[f.Names[0].Name] = strings.Join(strings.Fields(f.Comment.Text()+" "+f.Doc.Text()), " ")
		}
		return false
	})
	var b strings.Builder
	b.WriteString("| key | what |\n|---|---|\n")
	for i := range typ.NumField() {
		f := typ.Field(i)
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		what := comments[f.Name]
		if what == "" {
			what = strings.ToLower(f.Name)
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", key, what)
	}
	return b.String()
}

// eventsTable shows the keys of an event, in an example that is encoded here.
func eventsTable() string {
	e := trace.Event{At: 1_234_567_890, ID: trace.ID{Session: 3, Turn: 2}, Seq: 9, Mark: trace.TurnEnd, Causes: []trace.Ref{7, 8},
		Stage: trace.StageTurn, Setting: "turn.min_delay=500ms", Attempt: 1, Attrs: []trace.Attr{{Key: trace.AttrForced, Int: 1}}}
	return "```json\n" + strings.TrimSpace(string(trace.AppendJSON(nil, &e))) + "\n```\n\n" +
		"`seq` counts the events of a turn from 1, `cause` names them, `stage` is what the time since the latest cause is charged to\n" +
		"(left out: the usual stage of the mark), `setting` what owns it, `attempt` counts the attempts of a stage. What is empty is\n" +
		"left out."
}

// TestDocCommands runs every command that README and docs/ show, in an empty
// folder, one after the other, as a reader would.
func TestDocCommands(t *testing.T) {
	files, _ := filepath.Glob(root + "/docs/*.md")
	files = append(files, root+"/README.md", root+"/README.zh-CN.md")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			corpus, err := filepath.Abs(root + "/audio/corpus/recordings")
			if err != nil {
				t.Fatal(err)
			}
			traces, err := filepath.Abs(root + "/llm/serving/testdata")
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			for name, dir := range map[string]string{"my-recordings": corpus, "traces": traces} {
				if err := os.Symlink(dir, name); err != nil {
					t.Fatal(err)
				}
			}
			for _, b := range block.FindAllSubmatch(text, -1) {
				for line := range strings.Lines(string(b[1])) {
					args, ok := strings.CutPrefix(strings.TrimSpace(line), "firstsound ")
					if !ok {
						continue
					}
					var out, errs bytes.Buffer
					code := run(words(args), streams{in: strings.NewReader(""), out: &out, err: &errs, env: func(string) string { return "" }})
					if code != exitOK || out.Len() == 0 && !strings.HasPrefix(args, "init") {
						t.Errorf("firstsound %s: exit code %d, %d bytes of output, %s", args, code, out.Len(), errs.String())
					}
				}
			}
		})
	}
}

// words splits a command as a shell does, as far as the documents need it.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quoted, comment := false, strings.Index(line, " # ")
	if comment >= 0 {
		line = line[:comment]
	}
	for _, r := range strings.TrimSpace(line) + " " {
		switch {
		case r == '"':
			quoted = !quoted
		case r == ' ' && !quoted:
			if word.Len() > 0 {
				out = append(out, word.String())
				word.Reset()
			}
		default:
			word.WriteRune(r)
		}
	}
	return out
}
