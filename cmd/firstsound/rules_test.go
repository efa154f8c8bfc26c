package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// root is the top of the module, and module its path.
const root, module = "../..", "firstsound"

// may says which packages of this module a package may import, by path prefix,
// beyond the ones below its own folder. The first entry that fits counts.
// x! is x itself and nothing below it.
var may = []struct{ dir, imports string }{
	{"clocks/trace", "clocks!"},
	{"clocks/random", ""},
	{"clocks/clockstest", "clocks!"},
	{"clocks/quantile", ""},
	{"clocks/truth", ""},
	{"clocks/arrival", "clocks!"},
	{"clocks/exchange", "clocks! clocks/arrival"},
	{"clocks/socket", "clocks! clocks/arrival"},
	{"clocks/failure", "clocks/socket"},
	{"clocks/mockserver", "clocks! clocks/arrival clocks/random"},
	{"clocks", ""},
	{"audio/corpus", "audio! audio/wavfile"},
	{"audio/vad", "audio! clocks"},
	{"audio/netsim", "audio! audio/playout clocks"},
	{"audio/playout", "audio! clocks"},
	{"audio/codec", "audio!"},
	{"audio/rtc", "audio! audio/codec audio/playout clocks"},
	{"audio/ear", "audio! audio/playout audio/wavfile clocks"},
	{"audio/impair", "audio! clocks"},
	{"audio/signal", "clocks"},
	{"audio/clientstats", "audio/playout clocks"},
	{"audio/liveline", "audio! audio/codec audio/rtc audio/vad clocks"},
	{"audio/wsline", "audio! audio/codec audio/liveline clocks"},
	{"audio/wavfile", "audio!"},
	{"audio/realtime", "audio! audio/realtime! audio/vad! clocks"},
	{"audio", ""},
	{"asr", "asr! audio! audio/codec audio/wavfile clocks"},
	{"page", ""},
	{"llm/figures", "llm clocks page"},
	{"llm/diagnosis", "llm clocks page"},
	{"llm", "llm! clocks"},
	{"tts", "tts! audio! audio/codec audio/wavfile clocks"},
	{"pipeline/report", "pipeline/report! clocks/trace clocks/quantile page"},
	{"pipeline/load", "clocks"},
	{"pipeline/scenario", "pipeline! clocks"},
	{"pipeline/turnsim", "pipeline! clocks"},
	{"pipeline/callersim", "pipeline! audio! clocks"},
	{"pipeline/stepsim", "pipeline! clocks"},
	{"pipeline", "asr! llm! tts! audio! clocks"},
	{"cmd", "*"},
}

// onClock are the folders whose code may run on a Virtual clock: it waits
// through package clocks only.
var onClock = []string{"pipeline", "llm/serving", "asr/asrsim", "llm/llmsim", "tts/ttssim", "audio/netsim", "audio/playout", "audio/vad"}

// offClock are folders below those that never run on a clock.
var offClock = []string{"pipeline/report", "pipeline/scenario"}

// wall are the functions of package time that know only the computer's clock.
var wall = map[string]bool{
	"Now": true, "Since": true, "Until": true, "Sleep": true, "After": true, "AfterFunc": true,
	"NewTimer": true, "NewTicker": true, "Tick": true,
}

// wallAllowed says where the computer's clock is right, and why.
var wallAllowed = map[string]string{
	"clocks/socket": "deadlines of a net.Conn",
}

func TestRules(t *testing.T) {
	fset := token.NewFileSet()
	files := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), ".") && name != root || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return err
		}
		files++
		rel, _ := filepath.Rel(root, name)
		checkFile(t, fset, f, path.Dir(filepath.ToSlash(rel)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("looked at %d files only: is the path right?", files)
	}
}

func checkFile(t *testing.T, fset *token.FileSet, f *ast.File, dir string) {
	for _, imp := range f.Imports {
		p, _ := strconv.Unquote(imp.Path.Value)
		if to, ok := strings.CutPrefix(p, module+"/"); ok && !allowed(dir, to) {
			t.Errorf("%s: %s must not import %s", fset.Position(imp.Pos()), dir, to)
		}
		if p == "C" {
			t.Errorf("%s: no cgo", fset.Position(imp.Pos()))
		}
	}
	suite := strings.HasSuffix(dir, "test")
	clocked := !suite && underAny(dir, onClock) && !underAny(dir, offClock)
	ast.Inspect(f, func(n ast.Node) bool {
		at := func() string { return fset.Position(n.Pos()).String() }
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				t.Errorf("%s: func init; wire things in cmd", at())
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && x.Name == "time" && wall[n.Sel.Name] && dir != "clocks" && wallAllowed[dir] == "" && !suite {
				t.Errorf("%s: time.%s; use the clock", at(), n.Sel.Name)
			}
			if ok && x.Name == "context" && clocked && (n.Sel.Name == "WithCancel" || n.Sel.Name == "WithTimeout" || n.Sel.Name == "WithCancelCause" || n.Sel.Name == "AfterFunc") {
				t.Errorf("%s: context.%s; use package clocks", at(), n.Sel.Name)
			}
		case *ast.GoStmt, *ast.SelectStmt, *ast.ChanType, *ast.SendStmt:
			if clocked {
				t.Errorf("%s: goroutines and channels of a Virtual clock come from package clocks", at())
			}
		}
		return true
	})
}

func under(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func underAny(p string, dirs []string) bool {
	for _, d := range dirs {
		if under(p, d) {
			return true
		}
	}
	return false
}

func allowed(dir, to string) bool {
	for _, m := range may {
		if !under(dir, m.dir) {
			continue
		}
		if to != m.dir && under(to, m.dir) {
			return true
		}
		for a := range strings.FieldsSeq(m.imports) {
			exact, only := strings.CutSuffix(a, "!")
			if a == "*" || !only && under(to, a) || only && to == exact {
				return true
			}
		}
		return false
	}
	return false
}

func TestAllowed(t *testing.T) {
	for _, test := range []struct {
		dir, to string
		want    bool
	}{
		{"pipeline", "asr", true}, {"pipeline", "asr/asrsim", false}, {"pipeline", "pipeline/report", true},
		{"pipeline/report", "pipeline", false}, {"clocks", "audio", false}, {"cmd/firstsound", "tts/ttssim", true},
		{"asr/asrsim", "llm", false}, {"audio", "clocks", false},
	} {
		if got := allowed(test.dir, test.to); got != test.want {
			t.Errorf("%s imports %s: allowed %v, want %v", test.dir, test.to, got, test.want)
		}
	}
}
