package truthtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"firstsound/llm/llmmock"
)

var built string // the folder of the command, once there is one

// binary builds the command once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "firstsound-truth-")
	if err != nil {
		return "", err
	}
	built = dir
	path := filepath.Join(dir, "firstsound")
	if out, err := exec.Command("go", "build", "-o", path, "firstsound/cmd/firstsound").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// burnFor is the variable that makes this test program burn a core for so long.
const burnFor = "FIRSTSOUND_TRUTH_BURN"

func TestMain(m *testing.M) {
	if d, err := time.ParseDuration(os.Getenv(burnFor)); err == nil {
		for end := time.Now().Add(d); time.Now().Before(end); {
		}
		return
	}
	code := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(code)
}

// A service is the mock as a process of its own.
type service struct {
	url   string
	cmd   *exec.Cmd
	truth string
}

// start starts the command mock llm: the first token after 200 ms, then 50 a
// second.
func start(t *testing.T, tokens int) *service {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{truth: filepath.Join(t.TempDir(), "truth.jsonl")}
	s.cmd = exec.Command(path, "mock", "llm", "--listen", "127.0.0.1:0", "--first", "200ms", "--between", "20ms", "--tokens", strconv.Itoa(tokens), "--truth", s.truth)
	s.cmd.Stderr = os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("the mock said nothing")
	}
	var ok bool
	if s.url, ok = strings.CutPrefix(lines.Text(), "listening on "); !ok {
		t.Fatalf("the mock said %q", lines.Text())
	}
	go func() {
		for lines.Scan() {
			t.Logf("mock: %s", lines.Text())
		}
	}()
	return s
}

// stop ends the mock in good order, if it still runs.
func (s *service) stop(t *testing.T) {
	if s.cmd.ProcessState != nil {
		return
	}
	s.cmd.Process.Signal(os.Interrupt)
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Error(err)
	}
}

// cpu returns the processor time that the mock has used, in steps of 10 ms; 0
// where the system does not tell as Linux does.
func (s *service) cpu() time.Duration {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ") // behind the name, see proc(5)
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// truths ends the mock and returns what it did, by request ID.
func (s *service) truths(t *testing.T) map[string]llmmock.Truth {
	s.stop(t)
	f, err := os.Open(s.truth)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	var h llmmock.Header
	if err := d.Decode(&h); err != nil || h.Format != llmmock.Format {
		t.Fatalf("the truth begins with %+v (%v)", h, err)
	}
	all := map[string]llmmock.Truth{}
	for {
		var x llmmock.Truth
		err := d.Decode(&x)
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[x.RequestID] = x
	}
}

// burn keeps n cores busy until the returned function is called, and not longer
// than most.
func burn(t *testing.T, n int, most time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var burners []*exec.Cmd
	for range n {
		c := exec.CommandContext(ctx, os.Args[0]) // which is killed by its PID
		c.Env = append(os.Environ(), burnFor+"="+most.String(), "GOMAXPROCS=1")
		if err := c.Start(); err != nil {
			cancel()
			t.Fatal(err)
		}
		burners = append(burners, c)
	}
	return func() {
		cancel()
		for _, c := range burners {
			c.Wait() // killed: that is no news
		}
	}
}

// ownCPU returns the processor time of this process.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
