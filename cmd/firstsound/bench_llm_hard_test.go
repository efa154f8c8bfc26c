package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"firstsound/llm/record"
)

// TestChild is the program that startChild runs.
func TestChild(t *testing.T) {
	args := os.Getenv("FIRSTSOUND_TEST_ARGS")
	if args == "" {
		t.Skip("it is run by other tests")
	}
	try(strings.Fields(args)...)
}

// startChild runs firstsound as a process of its own.
func startChild(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestChild$")
	child.Env = append(os.Environ(), "FIRSTSOUND_TEST_ARGS="+strings.Join(args, " "))
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(child) })
	return child
}

// kill ends a child as kill -9 does.
func kill(child *exec.Cmd) {
	if child.ProcessState == nil {
		child.Process.Kill()
		child.Wait() // it was killed
	}
}

// freeAddress returns an address at which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// mockChild runs a mock as a process of its own, and waits until it listens.
func mockChild(t *testing.T, address string, more ...string) *exec.Cmd {
	t.Helper()
	child := startChild(t, append([]string{"mock", "llm", "--listen", address}, more...)...)
	for range 3000 {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return child
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the mock does not listen")
	return nil
}

// A run that is killed loses at most the last record.
func TestBenchLLMKilled(t *testing.T) {
	truth := filepath.Join(t.TempDir(), "truth.jsonl")
	url, stop := startMock(t, "--listen", "127.0.0.1:0", "--first", "2ms", "--between", "1ms", "--tokens", "4", "--truth", truth)
	dir := filepath.Join(t.TempDir(), "run")
	child := startChild(t, "bench", "llm", "--no-self-test", "--concurrency", "1", "--url", url, "--out", dir, "--server-metrics", strings.TrimSuffix(url, "/v1"))
	waitForLines(t, filepath.Join(dir, record.RequestsFile), 20)
	kill(child)
	stop()
	r, all := readFolder(t, dir)
	if r.State != record.Running || len(all) < 20 {
		t.Errorf("%s, %d attempts", r.State, len(all))
	}
	for i, a := range all {
		if !strings.HasSuffix(a.RequestID, fmt.Sprintf("-%d", i+1)) {
			t.Fatalf("record %d is of request %s", i, a.RequestID)
		}
	}
	sent := 0
	prefix, _, _ := strings.Cut(all[0].RequestID, "-")
	if _, err := eachLine(truth, func(line []byte) error {
		var x struct {
			ID string `json:"request_id"`
		}
		err := json.Unmarshal(line, &x)
		if strings.HasPrefix(x.ID, prefix+"-") {
			sent++
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if lost := sent - len(all); lost < 0 || lost > 1 {
		t.Errorf("%d requests at the service, %d records", sent, len(all))
	}
	// What is left can be read.
	stdout, _, code := try("show", dir)
	if code != 0 || !strings.Contains(stdout, "Server's monitoring") {
		t.Errorf("exit code %d\n%s", code, stdout)
	}
	if _, stderr, _ := try("diagnose", dir); !strings.Contains(stderr, "it was killed, or is still running") {
		t.Error(stderr)
	}
}

// A service that is killed and started again in mid-run gives counted failures,
// and the run goes on.
func TestBenchLLMServiceRestarted(t *testing.T) {
	address := freeAddress(t)
	slow := []string{"--first", "20ms", "--between", "5ms", "--tokens", "20"}
	mock := mockChild(t, address, slow...)
	dir := filepath.Join(t.TempDir(), "run")
	requests := filepath.Join(dir, record.RequestsFile)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	cmd := newBenchCmd(streams{out: &out, err: io.Discard, env: func(string) string { return "" }})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"llm", "-u", "http://" + address, "--concurrency", "3", "--duration", "10m", "--no-self-test", "--out", dir})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	waitForLines(t, requests, 12)
	kill(mock)
	data, _ := os.ReadFile(requests)
	before := bytes.Count(data, []byte("\n"))
	waitForLines(t, requests, before+6) // 3 that broke off, and 3 that found nobody
	mockChild(t, address, slow...)
	data, _ = os.ReadFile(requests)
	waitForLines(t, requests, bytes.Count(data, []byte("\n"))+9)
	cancel()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the run hangs")
	}
	_, all := readFolder(t, dir)
	classes, after := map[record.Class]int{}, 0
	for _, a := range all {
		classes[a.Class]++
		if classes[record.ConnectError] > 0 && a.Class == record.OK {
			after++
		}
		if a.Class != record.OK && a.Class != record.Unfinished && a.Error == "" {
			t.Errorf("%s is %s without a word", a.RequestID, a.Class)
		}
	}
	if classes[record.Truncated]+classes[record.StreamError]+classes[record.ConnectError] < 6 || after < 3 {
		t.Errorf("%v, %d ok after the service came back", classes, after)
	}
	if !strings.Contains(out.String(), fmt.Sprintf("connect_error %d", classes[record.ConnectError])) {
		t.Errorf("%v:\n%s", classes, out.String())
	}
}

// openFiles counts the descriptors of this process; 0 where that is not known.
func openFiles() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// A benchmark does not grow with its length. make soak runs it for ten minutes
// with 200 streams, FIRSTSOUND_SOAK=3m for three.
func TestBenchSoak(t *testing.T) {
	streams, duration := 20, 4*time.Second
	if long := os.Getenv("FIRSTSOUND_SOAK"); long != "" {
		streams, duration = 200, 10*time.Minute
		if d, err := time.ParseDuration(long); err == nil {
			duration = d
		}
	}
	address := freeAddress(t)
	mockChild(t, address, "--first", "100ms", "--between", "20ms", "--tokens", "30")
	dir := filepath.Join(t.TempDir(), "run")
	must(t, "version") // starts the goroutine that waits for signals for ever
	goroutines, files := runtime.NumGoroutine(), openFiles()
	type state struct {
		heap              uint64
		goroutines, files int
		size              int64 // of requests.jsonl
	}
	requests := filepath.Join(dir, record.RequestsFile)
	look := func() state {
		info, err := os.Stat(requests)
		if err != nil {
			t.Fatal(err)
		}
		return state{heap(), runtime.NumGoroutine(), openFiles(), info.Size()}
	}
	ended := make(chan string, 1)
	go func() {
		_, stderr, code := try("bench", "llm", "-u", "http://"+address, "--concurrency", fmt.Sprint(streams), "--duration", duration.String(), "--warmup", fmt.Sprint(streams),
			"--no-self-test", "--out", dir, "--server-metrics", address)
		ended <- fmt.Sprint(code, stderr)
	}()
	waitForLines(t, requests, streams)
	time.Sleep(duration / 2)
	early := look()
	time.Sleep(duration * 2 / 5)
	late := look()
	if got := <-ended; got != "0" {
		t.Fatal(got)
	}
	n, classes := 0, map[record.Class]int{}
	for a, err := range record.ReadAttempts(dir, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		classes[a.Class]++
	}
	t.Logf("%d attempts at %d streams, %v; at half time %+v, near the end %+v", n, streams, classes, early, late)
	if float64(classes[record.OK]) < 0.99*float64(n) { // a computer that stands still for a minute makes timeouts
		t.Errorf("%v of %d attempts", classes, n)
	}
	// Up to maxDiagnosed attempts are kept in memory, of about 5 kB each.
	end := look()
	kept := func(at state) uint64 { return uint64(min(maxDiagnosed, float64(n)*float64(at.size)/float64(end.size))) }
	most := early.heap + 5000*(kept(late)-kept(early)) + 16<<20
	if late.heap > most || late.goroutines > early.goroutines+streams/10 || late.files > early.files+streams/10 {
		t.Errorf("at half time %+v, near the end %+v", early, late)
	}
	for range 1000 { // idle connections go when their client is closed
		if runtime.NumGoroutine() <= goroutines+1 && openFiles() <= files+1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines and %d files, and %d and %d before", runtime.NumGoroutine(), openFiles(), goroutines, files)
}
