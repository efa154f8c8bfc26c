package signal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"firstsound/clocks/failure"
)

// A Client is how the other side is reached. The zero value will do.
type Client struct {
	HTTP   *http.Client // nil: http.DefaultClient
	Token  string       // sent as bearer token, if it is not empty; never in errors
	Header http.Header  // besides
}

// A Call is a call that has been answered.
type Call struct {
	Protocol Protocol
	Answer   string // SDP
	Resource string // its name: pc_id of SmallWebRTC, else its URL; empty if the server gave none
	ICE      []ICEServer
	Tag      string // of the ICE session, with WHIP and WHEP

	c        Client
	endpoint string // the URL that the offer went to, after redirects
	offer    string
}

// A StatusError says that the server answered with another status than it should.
type StatusError struct {
	Status int
	Text   string // what it said, cut off
}

func (e *StatusError) Error() string {
	text := strings.Join(strings.Fields(e.Text), " ")
	if text == "" {
		text = http.StatusText(e.Status)
	}
	return fmt.Sprintf("the server says %d: %s", e.Status, text)
}

// maxText is how much of an error page an error shows.
const maxText = 500

// Start asks a Pipecat runner for a session (POST url, which ends in /start) and
// returns the URL for Dial and the ICE servers to use.
func (c Client) Start(ctx context.Context, start string, body json.RawMessage) (offer string, ice []ICEServer, err error) {
	b, err := json.Marshal(startRequest{Transport: "webrtc", Body: body})
	if err != nil {
		return "", nil, fmt.Errorf("signal: smallwebrtc: start: %w", err)
	}
	resp, data, err := c.do(ctx, http.MethodPost, start, "application/json", b, nil)
	if err == nil {
		err = accept(resp, data, http.StatusOK)
	}
	if err != nil {
		return "", nil, fmt.Errorf("signal: smallwebrtc: start: %w", err)
	}
	var m startAnswer
	if err := json.Unmarshal(data, &m); err != nil || m.Session == "" {
		return "", nil, fmt.Errorf("signal: smallwebrtc: start: the answer has no sessionId: %.80q", data)
	}
	if m.ICE != nil {
		ice = m.ICE.Servers
	}
	path := "sessions/" + url.PathEscape(m.Session) + "/api/offer"
	u, err := resp.Request.URL.Parse(path) // beside /start
	if err != nil {
		return "", nil, fmt.Errorf("signal: smallwebrtc: start: %w", err)
	}
	return u.String(), ice, nil
}

// Dial sends an offer to a URL: that of /api/offer, of /v1/realtime/calls, or of the
// WHIP or WHEP endpoint. Redirects 307 and 308 are followed with the offer. What went
// wrong on the server's side is a StatusError.
func (c Client) Dial(ctx context.Context, to string, o Offer) (*Call, error) {
	call, err := c.dial(ctx, to, o)
	if err != nil {
		return nil, fmt.Errorf("signal: %s: %w", o.Protocol, err)
	}
	return call, nil
}

func (c Client) dial(ctx context.Context, to string, o Offer) (*Call, error) {
	if err := CheckSDP(o.SDP); err != nil {
		return nil, err
	}
	kind, body := "application/sdp", []byte(o.SDP)
	var err error
	switch o.Protocol {
	case SmallWebRTC:
		m := smallOffer{SDP: o.SDP, Type: "offer", Restart: o.Restart, Data: o.Data}
		if o.Call != "" {
			m.Call = &o.Call
		}
		kind = "application/json"
		body, err = json.Marshal(m)
	case Realtime:
		if o.Data != nil {
			kind, body, err = form(o)
		}
	case WHIP, WHEP:
	default:
		err = errors.New("there is no such protocol: there are smallwebrtc, realtime, whip and whep")
	}
	if err != nil {
		return nil, err
	}
	resp, data, err := c.do(ctx, http.MethodPost, to, kind, body, nil)
	if err != nil {
		return nil, err
	}
	// 201 it has to be, but for SmallWebRTC. Some servers say 200.
	if err := accept(resp, data, http.StatusOK, http.StatusCreated); err != nil {
		return nil, err
	}
	call := &Call{Protocol: o.Protocol, c: c, endpoint: resp.Request.URL.String(), offer: o.SDP, Answer: string(data), Tag: resp.Header.Get("ETag")}
	if o.Protocol == SmallWebRTC {
		var m smallAnswer
		if err := json.Unmarshal(data, &m); err != nil {
			return nil, failure.JSON("the answer", data, err)
		}
		call.Answer, call.Resource = m.SDP, m.Call
	} else if location := resp.Header.Get("Location"); location != "" {
		u, err := resp.Request.URL.Parse(location)
		if err != nil {
			return nil, fmt.Errorf("the location %.80q: %w", location, err)
		}
		call.Resource = u.String()
	}
	if err := CheckSDP(call.Answer); err != nil {
		return nil, fmt.Errorf("the answer: %w", err)
	}
	call.ICE = links(resp.Header.Values("Link"))
	return call, nil
}

// form makes the form of Realtime.
func form(o Offer) (kind string, body []byte, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range []struct{ name, kind, value string }{
		{"sdp", "application/sdp", o.SDP}, {"session", "application/json", string(o.Data)},
	} {
		h := textproto.MIMEHeader{}
		h.Set("Content-Disposition", mime.FormatMediaType("form-data", map[string]string{"name": f.name}))
		h.Set("Content-Type", f.kind)
		part, err := w.CreatePart(h)
		if err != nil {
			return "", nil, err
		}
		part.Write([]byte(f.value)) // into memory
	}
	err = w.Close()
	return w.FormDataContentType(), b.Bytes(), err
}

// Trickle sends candidates that were found since the offer; an empty one is the end of
// them. Realtime has no such thing: the error is ErrUnsupported, as it is if the
// server says so.
func (k *Call) Trickle(ctx context.Context, candidates []Candidate) error {
	if err := k.trickle(ctx, candidates); err != nil {
		return fmt.Errorf("signal: %s: candidates: %w", k.Protocol, err)
	}
	return nil
}

func (k *Call) trickle(ctx context.Context, candidates []Candidate) error {
	var body []byte
	var err error
	kind, to, header := FragmentType, k.Resource, http.Header{}
	switch {
	case k.Protocol == Realtime:
		return ErrUnsupported
	case k.Resource == "":
		return ErrUnknown
	case k.Protocol == SmallWebRTC:
		m := smallTrickle{Call: k.Resource, Candidates: []smallCandidate{}}
		for _, c := range candidates {
			m.Candidates = append(m.Candidates, smallCandidate{c.Candidate, c.Mid, c.Line})
		}
		kind, to = "application/json", k.endpoint
		if body, err = json.Marshal(m); err != nil {
			return err
		}
	default:
		f := Fragment{}
		f.Ufrag, f.Password = credentials(k.offer)
		for _, c := range candidates {
			if c.Candidate == "" {
				f.End = true
			} else {
				f.Candidates = append(f.Candidates, c)
			}
		}
		body = []byte(f.String())
		if k.Tag != "" {
			header.Set("If-Match", k.Tag)
		}
	}
	resp, data, err := k.c.do(ctx, http.MethodPatch, to, kind, body, header)
	if err != nil {
		return err
	}
	if unsupported(resp) {
		return ErrUnsupported
	}
	return accept(resp, data, http.StatusOK, http.StatusNoContent)
}

// Restart restarts ICE with the credentials of a new offer, and returns the server's
// new ones with its candidates. Only WHIP and WHEP have it; with SmallWebRTC a second
// Dial names the call. Without it the error is ErrUnsupported.
func (k *Call) Restart(ctx context.Context, offer string) (Fragment, error) {
	f, err := k.restart(ctx, offer)
	if err != nil {
		return Fragment{}, fmt.Errorf("signal: %s: restart: %w", k.Protocol, err)
	}
	return f, nil
}

func (k *Call) restart(ctx context.Context, offer string) (Fragment, error) {
	switch {
	case k.Protocol != WHIP && k.Protocol != WHEP:
		return Fragment{}, ErrUnsupported
	case k.Resource == "":
		return Fragment{}, ErrUnknown
	}
	var ask Fragment
	ask.Ufrag, ask.Password = credentials(offer)
	resp, data, err := k.c.do(ctx, http.MethodPatch, k.Resource, FragmentType, []byte(ask.String()), http.Header{"If-Match": {"*"}})
	if err != nil {
		return Fragment{}, err
	}
	if unsupported(resp) {
		return Fragment{}, ErrUnsupported
	}
	if err := accept(resp, data, http.StatusOK); err != nil {
		return Fragment{}, err
	}
	f, err := ParseFragment(string(data))
	if err == nil {
		k.offer, k.Tag = offer, resp.Header.Get("ETag")
	}
	return f, err
}

// unsupported says whether a server has no PATCH, or not this one.
func unsupported(resp *http.Response) bool {
	return resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented
}

// Hangup ends the call. SmallWebRTC has nothing to say it with: the connection's own
// end is enough, and it returns nil.
func (k *Call) Hangup(ctx context.Context) error {
	method, to := http.MethodDelete, k.Resource
	switch {
	case k.Protocol == SmallWebRTC:
		return nil
	case k.Resource == "":
		return fmt.Errorf("signal: %s: hang up: %w", k.Protocol, ErrUnknown)
	case k.Protocol == Realtime:
		method, to = http.MethodPost, to+"/hangup"
	}
	resp, data, err := k.c.do(ctx, method, to, "", nil, nil)
	if err == nil {
		err = accept(resp, data, http.StatusOK, http.StatusNoContent)
	}
	if err != nil {
		return fmt.Errorf("signal: %s: hang up: %w", k.Protocol, err)
	}
	return nil
}

// do sends a request and reads its answer, whatever that is.
func (c Client) do(ctx context.Context, method, to, kind string, body []byte, header http.Header) (*http.Response, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	for _, h := range []http.Header{c.Header, header} {
		for key, values := range h {
			r.Header[key] = values
		}
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if c.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	data, err := readBody(resp.Body, MaxBody)
	if err != nil {
		return nil, nil, fmt.Errorf("the server's answer: %w", err)
	}
	return resp, data, nil
}

// accept returns a StatusError unless the status is one of those.
func accept(resp *http.Response, data []byte, statuses ...int) error {
	for _, s := range statuses {
		if resp.StatusCode == s {
			return nil
		}
	}
	return &StatusError{resp.StatusCode, string(data[:min(len(data), maxText)])}
}

// links returns the ICE servers of Link headers (RFC 9725, section 4.6). Others, and
// what cannot be read, are passed over.
func links(values []string) []ICEServer {
	var out []ICEServer
	for _, v := range strings.Split(strings.Join(values, ", "), ", <") {
		to, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(v), "<"), ">")
		_, params, err := mime.ParseMediaType("x/x" + rest)
		if ok && err == nil && params["rel"] == "ice-server" {
			out = append(out, ICEServer{URLs: []string{to}, Username: params["username"], Credential: params["credential"]})
		}
	}
	return out
}
