package asrmock

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"

	"firstsound/clocks"
	"firstsound/clocks/mockserver"
	"firstsound/clocks/random"
	"firstsound/clocks/socket"
)

// A Server is the mock. Several Serve and ServeWyoming may run at once.
type Server struct {
	clock  clocks.Clock
	o      Options
	faults []mockserver.Fault
	calls  atomic.Int64
	texts  atomic.Int64
}

// New returns a Server on clock, which has to be a Real one.
func New(clock clocks.Clock, o Options) (*Server, error) {
	if err := o.Check(); err != nil {
		return nil, fmt.Errorf("asrmock: %w", err)
	}
	f, _ := parseFaults(o.Faults) // checked
	return &Server{clock: clock, o: o, faults: f}, nil
}

func (s *Server) nextText() string {
	n := s.texts.Add(1) - 1
	if len(s.o.Texts) == 0 {
		return ""
	}
	return s.o.Texts[n%int64(len(s.o.Texts))]
}

const maxMessage = 4 << 20

// Serve answers what comes over the connections that l accepts until ctx ends,
// over TLS if config is not nil. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener, config *tls.Config) error {
	if err := mockserver.Serve(ctx, s.clock, l, config, s.serve); err != nil {
		return fmt.Errorf("asrmock: %w", err)
	}
	return nil
}

// protocolOf returns the protocol of a WebSocket.
func (s *Server) protocolOf(r *http.Request) (p protocol, subprotocols []string) {
	switch path := strings.TrimRight(r.URL.Path, "/"); {
	case strings.HasSuffix(path, "/v1/listen"):
		return &deepgramV1{query: r.URL.Query()}, nil
	case strings.HasSuffix(path, "/v2/listen"):
		return &flux{query: r.URL.Query()}, nil
	case strings.HasSuffix(path, "/v3/ws"):
		return &assemblyai{query: r.URL.Query()}, nil
	case strings.HasSuffix(path, "/v1/realtime"):
		return &realtime{finding: true}, nil
	case strings.HasSuffix(path, "/api-ws/v1/inference"):
		return &dashscope{}, nil
	}
	for _, name := range websocketNames(r) {
		if name == "binary" {
			return &funasr{quirk: s.o.FunASR}, []string{"binary"}
		}
	}
	return &vosk{}, nil
}

// websocketNames returns the subprotocols that the client asks for.
func websocketNames(r *http.Request) (names []string) {
	for _, name := range strings.Split(r.Header.Get("Sec-Websocket-Protocol"), ",") {
		names = append(names, strings.TrimSpace(name))
	}
	return names
}

// newCall returns the call of the next connection.
func (s *Server) newCall(p protocol, requestID string) *call {
	n := int(s.calls.Add(1) - 1)
	c := &call{s: s, p: p, todo: clocks.NewQueue[func()](s.clock, "a call of the mock"), faults: mockserver.Draw(s.faults, random.New(s.o.Seed, "asrmock.faults", n))}
	c.truth = Truth{Number: n, RequestID: requestID, Protocol: p.name(), Status: http.StatusSwitchingProtocols, Utterances: []*Heard{}}
	if requestID == "" {
		c.truth.RequestID = fmt.Sprintf("asrmock-%d", n)
	}
	c.ear = ear{c: c, rate: 16000}
	return c
}

// requestID returns the client's name for its request.
func requestID(r *http.Request) string {
	return cmp.Or(mockserver.RequestID(r), r.URL.Query().Get("tag"))
}

// key returns the key that a request has.
func key(r *http.Request) string {
	k := r.Header.Get("Authorization")
	if scheme, rest, ok := strings.Cut(k, " "); ok && scheme != "" {
		k = strings.TrimSpace(rest)
	}
	return k
}

// refusal returns the status with which the request is refused; 0: it is not.
func (s *Server) refusal(r *http.Request, f mockserver.Faults) int {
	if f.Has("refuse") {
		return f.Number("refuse")
	}
	if s.o.Keys == nil {
		return 0
	}
	for _, k := range s.o.Keys {
		if key(r) == k {
			return 0
		}
	}
	return http.StatusUnauthorized
}

// serve answers one request.
func (s *Server) serve(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	arrived, kernel := mockserver.Arrived(s.clock, r)
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		s.serveHTTP(ctx, w, r, arrived, kernel)
		return
	}
	p, subprotocols := s.protocolOf(r)
	c := s.newCall(p, requestID(r))
	c.truth.Arrived, c.truth.Kernel = arrived, kernel
	if c.faults.Has("slow") {
		s.clock.Sleep(ctx, c.faults.Duration("slow"))
	}
	if status := s.refusal(r, c.faults); status != 0 {
		c.refuse(w, r, status)
		return
	}
	header := http.Header{}
	header.Set("Dg-Request-Id", c.truth.RequestID)
	header.Set("X-Request-Id", c.truth.RequestID)
	conn, err := socket.Accept(s.clock, w, r, header, socket.Options{Subprotocols: subprotocols, Limit: maxMessage})
	if err != nil {
		c.truth.Status = http.StatusBadRequest
		c.end("no WebSocket: " + err.Error())
		c.run(ctx)
		return
	}
	c.talk(ctx, conn)
}

// refuse answers with a status and an error in OpenAI's form, which the other
// services' clients take as text.
func (c *call) refuse(w http.ResponseWriter, r *http.Request, status int) {
	if c.faults.Has("refuse") {
		c.struck = append(c.struck, "refuse")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", c.truth.RequestID)
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"message":"refused with %d (simulated)","type":"invalid_request_error","param":null,"code":null}}`, status)
	c.truth.Status = status
	c.end("refused")
	c.run(r.Context())
}

// talk holds the conversation over a WebSocket.
func (c *call) talk(ctx context.Context, conn *socket.Conn) {
	c.close = conn.Close
	c.write = func(text bool, data []byte) {
		if c.cut {
			c.drop(data)
			return
		}
		if _, err := conn.Send(text, data); err != nil {
			c.end("client_gone")
		}
	}
	c.drop = func(part []byte) {
		stamps := conn.Stamps()
		if stamps == nil {
			return
		}
		if n := len(part); n > 0 && n < 1<<16 {
			stamps.Write(append([]byte{0x81, 126, byte(n >> 8), byte(n)}, part[:n/2]...)) // half of a text message
		}
		stamps.Close()
	}
	g, inner := clocks.NewGroup(ctx, c.s.clock)
	g.Go("messages of a client", func() error {
		defer c.todo.Close()
		for {
			m, err := conn.Next(inner)
			if err != nil {
				return nil
			}
			c.todo.Put(func() {
				c.truth.Kernel = m.Kernel
				c.p.message(c, inbound{data: m.Data, text: m.Text, at: m.Arrived})
			})
		}
	})
	c.p.hello(c)
	c.run(ctx)
	conn.Close(1000, "")
	g.Wait()
}
