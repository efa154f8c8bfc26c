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
	"slices"
	"strings"
	"testing"

	"firstsound/clocks/trace"
	"firstsound/llm/record"
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
		"run":      fieldsTable(t, reflect.TypeFor[report.RunInfo](), "pipeline/report/runinfo.go", "RunInfo"),
		"events":   eventsTable(),
		"turns":    fieldsTable(t, reflect.TypeFor[report.TurnRow](), "pipeline/report/turnrow.go", "TurnRow"),
		"requests": fieldsTable(t, reflect.TypeFor[record.Attempt](), "llm/record/record.go", "Attempt"),
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
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ParseComments)
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
			what := f.Comment.Text()
			if name != "Attempt" { // where they are headings of groups
				what += " " + f.Doc.Text()
			}
			comments[f.Names[0].Name] = strings.Join(strings.Fields(what), " ")
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
			what = strings.ReplaceAll(strings.TrimSuffix(key, "_ns"), "_", " ")
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
			services := docServices{}
			for _, b := range block.FindAllSubmatch(text, -1) {
				for line := range strings.Lines(string(b[1])) {
					args, ok := strings.CutPrefix(strings.TrimSpace(line), "firstsound ")
					if !ok {
						continue
					}
					argv := services.arrange(t, words(strings.TrimSuffix(args, "&")))
					if argv == nil {
						continue // it serves, beside the others
					}
					var out, errs bytes.Buffer
					code := run(argv, streams{in: strings.NewReader(""), out: &out, err: &errs, env: func(string) string { return "" }})
					if code != exitOK || out.Len() == 0 && !strings.HasPrefix(args, "init") {
						t.Errorf("firstsound %s: exit code %d, %d bytes of output, %s", args, code, out.Len(), errs.String())
					}
				}
			}
		})
	}
}

// docServices are the mocks that the documents start or take for granted: by the
// address that is written there, the URL of the one that serves.
type docServices map[string]string

// docAddress is the service of the documents.
const docAddress = "http://127.0.0.1:8000"

// arrange starts what is to be started, puts its address into the arguments, and
// makes a benchmark short. It returns nil if nothing is left to be run.
func (d docServices) arrange(t *testing.T, args []string) []string {
	serve := func(address string, more ...string) {
		url, stop := startMock(t, append(more, "--listen", "127.0.0.1:0", "--first", "5ms", "--between", "1ms", "--tokens", "8")...)
		t.Cleanup(func() { stop() })
		d[address] = strings.TrimSuffix(url, "/v1")
	}
	line := strings.Join(args, " ")
	if strings.HasPrefix(line, "mock llm") {
		address := docAddress
		if i := slices.Index(args, "--listen"); i >= 0 && i+1 < len(args) {
			address = "http://" + args[i+1]
		}
		serve(address, args[2:]...)
		return nil
	}
	if strings.Contains(line, docAddress) && d[docAddress] == "" {
		serve(docAddress)
	}
	for written, url := range d {
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], written, url)
		}
	}
	if strings.HasPrefix(line, "bench llm") {
		args = append(args, "--no-self-test", "--requests", "12", "--warmup", "1", "--single", "12")
	}
	return args
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
