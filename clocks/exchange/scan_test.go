package exchange

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"firstsound/clocks"
	"firstsound/clocks/arrival"
)

// at is the mark of the n-th read, at n ms.
func at(n int64) mark {
	return mark{stamp: arrival.Stamp{Arrived: time.Duration(n) * ms, N: n}, before: time.Duration(n-1) * ms, known: n > 1}
}

// bodyMarks returns, for each byte of the body, the read that brought it.
func bodyMarks(l *marks) (reads []int64) {
	for off := int64(0); ; off++ {
		m, ok := l.at(off)
		if !ok {
			return reads
		}
		reads = append(reads, m.stamp.N)
	}
}

func TestScan1(t *testing.T) {
	for _, test := range []struct {
		name    string
		parts   []string // a read each
		headers int64    // the read that ended them
		hints   int      // blocks of 1xx
		body    []int64  // the read of each byte
	}{
		{"length", []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n", "\r\nab", "cd"}, 2, 0, []int64{2, 2, 3, 3}},
		{"to the end", []string{"HTTP/1.0 200 OK\r\n\r\n", "a", "b"}, 1, 0, []int64{2, 3}},
		{"chunks", []string{"HTTP/1.1 200 OK\r\ntransfer-encoding:  Chunked \r\n\r\n2\r\nab\r\n", "1;x=y\r\n", "c\r", "\n3\r\ndef\r\n0\r\n", "T: 1\r\n\r\nafter"}, 1, 0, []int64{1, 1, 3, 4, 4, 4}},
		{"a chunk in pieces", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00A\r\nabc", "def", "ghij\r\n"}, 1, 0, []int64{1, 1, 1, 2, 2, 2, 3, 3, 3, 3}},
		{"hints", []string{"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nab"}, 2, 2, []int64{2, 2}},
		{"bare line feeds", []string{"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\na\n0\n\n"}, 1, 0, []int64{1}},
		{"a long header", []string{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 3*maxScanLine), "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na"}, 2, 0, []int64{2}},
		{"no size", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc"}, 1, 0, nil},
	} {
		l := new(marks)
		s := scan1{marks: l}
		for i, p := range test.parts {
			s.feed([]byte(p), at(int64(i+1)))
		}
		m, ok := l.headers(test.hints)
		if !ok || m.stamp.N != test.headers {
			t.Errorf("%s: headers with read %d, %v; want %d", test.name, m.stamp.N, ok, test.headers)
		}
		if got := bodyMarks(l); !equal(got, test.body) {
			t.Errorf("%s: body with reads %d, want %d", test.name, got, test.body)
		}
	}
}

func equal(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Whatever net/http reads as the body, the scanner has marked, wherever the
// reads are cut.
func FuzzScan1(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n", 5)
	f.Add("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 1)
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0;q\r\n\r\n", 2)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		if cut <= 0 || cut > 1000 {
			return
		}
		l := new(marks)
		s := scan1{marks: l}
		for n, rest := int64(1), []byte(text); len(rest) > 0; n++ {
			k := min(cut, len(rest))
			s.feed(rest[:k], at(n))
			rest = rest[k:]
		}
		in := bufio.NewReader(strings.NewReader(text))
		var resp *http.Response
		for {
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				return
			}
			if resp = r; r.StatusCode < 100 || r.StatusCode > 199 || r.StatusCode == 101 {
				break
			}
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return
		}
		if l.end < int64(len(body)) {
			t.Errorf("%d bytes of the body, %d seen: %q", len(body), l.end, text)
		}
		if len(resp.TransferEncoding) == 1 && l.end != int64(len(body)) {
			t.Errorf("%d bytes in chunks, %d seen: %q", len(body), l.end, text)
		}
	})
}

// frames writes frames with every feature that moves the data.
func frames() []byte {
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20})
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte("abc"), PadLength: 3})
	f.WriteContinuation(1, true, []byte("defg"))
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("x"), EndHeaders: true})
	f.WriteData(1, false, []byte("hello"))
	f.WriteDataPadded(3, false, []byte("padded"), make([]byte, 10))
	f.WriteData(1, false, nil)
	f.WriteDataPadded(3, false, nil, make([]byte, 4))
	f.WritePing(false, [8]byte{1})
	f.WriteDataPadded(1, false, []byte("!"), nil)
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: []byte("t"), EndHeaders: true, EndStream: true})
	f.WriteData(1, true, []byte("bye"))
	return b.Bytes()
}

// A stream sees its own bytes, wherever the reads are cut.
func TestScan2(t *testing.T) {
	all := frames()
	for size := 1; size <= len(all); size++ {
		var s scan2
		got, blocks, read := map[uint32]string{}, map[uint32]int{}, 0
		for rest := all; len(rest) > 0; {
			part := rest[:min(size, len(rest))]
			rest = rest[len(part):]
			before := map[uint32]int{}
			s.feed(part, func(f *frame, n int) {
				before[f.stream] += n
			}, func(f *frame) {
				if f.endsHeaders() {
					blocks[f.stream]++
				}
			})
			for id, n := range before {
				got[id] += strings.Repeat("x", n)
				read += n
			}
		}
		if len(got[1]) != len("hello!bye") || len(got[3]) != len("padded") || blocks[1] != 1 || blocks[3] != 2 || s.have != 0 {
			t.Errorf("reads of %d: %v, %v", size, got, blocks)
		}
	}
}

func FuzzScan2(f *testing.F) {
	f.Add(frames(), 7)
	f.Add([]byte{0, 0, 1, 0, 8, 0, 0, 0, 1, 255}, 3)
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		if cut <= 0 || cut > 1000 {
			return
		}
		seen := map[uint32]int{}
		var s scan2
		for rest := data; len(rest) > 0; {
			k := min(cut, len(rest))
			s.feed(rest[:k], func(f *frame, n int) {
				if n < 0 || n > k {
					t.Fatalf("%d bytes of %d", n, k)
				}
				seen[f.stream] += n
			}, func(*frame) {})
			rest = rest[k:]
		}
		want := map[uint32]int{}
		in := http2.NewFramer(io.Discard, bytes.NewReader(data))
		in.SetMaxReadFrameSize(1 << 24)
		in.AllowIllegalReads = true
		for {
			fr, err := in.ReadFrame()
			if err != nil {
				break
			}
			if d, ok := fr.(*http2.DataFrame); ok {
				want[d.StreamID] += len(d.Data())
			}
		}
		for id, n := range want {
			if seen[id] < n { // a last frame that was cut off may add to it
				t.Errorf("stream %d: %d bytes, %d seen", id, n, seen[id])
			}
		}
	})
}

// What is kept of a response is bounded; the bytes past it count as come with
// the last.
func TestMarksAreBounded(t *testing.T) {
	l := new(marks)
	for i := range int64(keepBody + 10) {
		l.add(1, at(i+1))
		l.block(at(i + 1))
	}
	if len(l.body) != keepBody || len(l.blocks) != keepBlocks {
		t.Errorf("%d marks, %d blocks", len(l.body), len(l.blocks))
	}
	if m, ok := l.at(keepBody + 3); !ok || m.stamp.N != keepBody+10 || m.before != (keepBody-1)*ms {
		t.Errorf("%+v, %v", m, ok)
	}
	// One that reads along keeps it small.
	l = new(marks)
	for i := range int64(10_000) {
		l.add(3, at(i+1))
		if m, _ := l.at(3 * i); m.stamp.N != i+1 {
			t.Fatalf("%d: %+v", i, m)
		}
	}
	if cap(l.body) > 16 {
		t.Errorf("room for %d marks", cap(l.body))
	}
}

// answer serves one exchange by hand: it reads the request and writes parts, 20
// ms before each.
func answer(conn net.Conn, parts []string, hangUp bool) {
	http.ReadRequest(bufio.NewReader(conn))
	for _, p := range parts {
		time.Sleep(20 * ms)
		io.WriteString(conn, p)
	}
	if hangUp {
		conn.Close()
	}
}

// Every framing of a body gives the pieces as they come, also those of a chunk,
// which net/http would hold back until it is whole.
func TestFramings(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\n"
	for _, test := range []struct {
		name   string
		parts  []string
		hangUp bool
		want   []string // pieces
		times  []int    // … in parts
	}{
		{"length", []string{head + "Content-Length: 6\r\n\r\nab", "cd", "ef"}, false, []string{"ab", "cd", "ef"}, []int{1, 2, 3}},
		{"to the end", []string{head + "\r\n", "abc", "d"}, true, []string{"abc", "d"}, []int{2, 3}},
		{"chunks", []string{head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n2\r\nbc\r\n", "1\r\nd\r\n0\r\n\r\n"}, false, []string{"abc", "d"}, []int{2, 3}},
		{"a slow chunk", []string{head + "Transfer-Encoding: chunked\r\n\r\n8\r\nab", "cd", "efgh\r\n0\r\n\r\n"}, false, []string{"ab", "cd", "efgh"}, []int{1, 2, 3}},
		{"a size apart", []string{head + "Transfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n2\r\n", "bc\r\n0\r\n\r\n"}, false, []string{"a", "bc"}, []int{2, 3}},
		{"cut off", []string{head + "Content-Length: 6\r\n\r\nab"}, true, []string{"ab"}, []int{1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes()
				go func() {
					conn, _ := p.Accept()
					answer(conn, test.parts, test.hangUp)
				}()
				clock := clocks.NewReal()
				c := New(clock, Options{Dial: p.dial})
				defer c.Close()
				x, err := c.Do(t.Context(), request(t, way{scheme: "http"}, "/"))
				if err != nil {
					t.Fatal(err)
				}
				defer x.Close()
				reads, err := all(x)
				if cut := test.name == "cut off"; cut == (err == io.EOF) {
					t.Error(err)
				}
				for i, r := range reads {
					want := *x.Connected + time.Duration(test.times[min(i, len(test.times)-1)])*20*ms
					if i >= len(test.want) || string(r.Data) != test.want[i] || r.Arrived != want || r.Read != want {
						t.Errorf("piece %d: %q %+v, want %q at %v", i, r.Data, r, test.want, want)
					}
				}
				if len(reads) != len(test.want) {
					t.Errorf("%d pieces, want %q", len(reads), test.want)
				}
			})
		})
	}
}

// halves writes each write in two, 5 ms apart, once it is told to.
type halves struct {
	net.Conn
	on bool
}

func (h *halves) Write(p []byte) (int, error) {
	if !h.on || len(p) < 2 {
		return h.Conn.Write(p)
	}
	n, err := h.Conn.Write(p[:len(p)/2])
	if err != nil {
		return n, err
	}
	time.Sleep(5 * ms)
	m, err := h.Conn.Write(p[len(p)/2:])
	return n + m, err
}

// A TLS record that comes in two reads arrives with the second; what came before
// it is the first.
func TestRecordsThatStraddleReads(t *testing.T) {
	cert, pool := certificate()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		go func() {
			raw, _ := p.Accept()
			h := &halves{Conn: raw}
			conn := tls.Server(h, &tls.Config{Certificates: []tls.Certificate{cert}})
			conn.Handshake()
			h.on = true
			answer(conn, []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", "1\r\nb\r\n0\r\n\r\n"}, false)
		}()
		c := New(clocks.NewReal(), Options{Dial: p.dial, TLS: &tls.Config{RootCAs: pool}})
		x, err := c.Do(t.Context(), request(t, way{scheme: "https"}, "/"))
		if err != nil {
			t.Fatal(err)
		}
		if *x.Headers-*x.Connected != 25*ms {
			t.Errorf("headers at %v", *x.Headers)
		}
		reads, err := all(x)
		if err != io.EOF || text(reads) != "ab" {
			t.Errorf("%q, %v", text(reads), err)
		}
		for i, r := range reads {
			at := *x.Headers + time.Duration(i+1)*25*ms
			if r.Arrived != at || r.Earliest != at-5*ms {
				t.Errorf("%q arrived at %v after %v, want %v", r.Data, r.Arrived, r.Earliest, at)
			}
		}
		x.Close()
		c.Close()
		time.Sleep(10 * time.Second)
	})
}
