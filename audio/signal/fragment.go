package signal

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Fragment is what trickle ICE sends (RFC 8840, section 9): application/
// trickle-ice-sdpfrag.
type Fragment struct {
	Ufrag, Password string
	Media           string // the first m= line's value; empty: "audio 9 RTP/AVP 0", which says nothing
	Candidates      []Candidate
	End             bool // no more candidates come
}

// FragmentType is the media type of a Fragment.
const FragmentType = "application/trickle-ice-sdpfrag"

// maxFragment is how long a fragment may be.
const maxFragment = 64 << 10

// ParseFragment reads a fragment. The candidates have the mid of the media that they
// stand under; before the first one they have none. Lines that it has no use for are
// passed over.
func ParseFragment(text string) (Fragment, error) {
	var f Fragment
	bad := func(line int, format string, args ...any) (Fragment, error) {
		return Fragment{}, refuse(http.StatusBadRequest, "the fragment, line %d: %s", line, fmt.Sprintf(format, args...))
	}
	if len(text) > maxFragment {
		return Fragment{}, refuse(http.StatusRequestEntityTooLarge, "the fragment has %d bytes: the most is %d", len(text), maxFragment)
	}
	var mid *string
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if line == "" {
			continue
		}
		if len(line) < 2 || line[1] != '=' || strings.ContainsAny(line, "\r\x00") {
			return bad(number, "%.40q is no line of SDP", line)
		}
		key, value, _ := strings.Cut(line[2:], ":")
		switch {
		case line[0] == 'm':
			if f.Media == "" {
				f.Media = line[2:]
			}
			mid = nil
		case line[0] != 'a':
		case key == "mid":
			m := value
			mid = &m
		case key == "ice-ufrag":
			if f.Ufrag != "" && f.Ufrag != value {
				return bad(number, "a second ice-ufrag: all media have to be bundled")
			}
			f.Ufrag = value
		case key == "ice-pwd":
			f.Password = value
		case key == "end-of-candidates":
			f.End = true
		case key == "candidate":
			if len(f.Candidates) == maxCandidates {
				return bad(number, "more than %d candidates", maxCandidates)
			}
			f.Candidates = append(f.Candidates, Candidate{Candidate: "candidate:" + value, Mid: mid, Fragment: f.Ufrag})
		}
	}
	return f, nil
}

// String returns f as it is sent, with the candidates under their media.
func (f Fragment) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\r\n", args...) }
	if f.Ufrag != "" {
		line("a=ice-ufrag:%s", f.Ufrag)
		line("a=ice-pwd:%s", f.Password)
	}
	var mids []string
	for _, c := range f.Candidates {
		if c.Mid != nil && !slices.Contains(mids, *c.Mid) {
			mids = append(mids, *c.Mid)
		}
	}
	media := f.Media
	if media == "" {
		media = "audio 9 RTP/AVP 0"
	}
	for _, c := range f.Candidates {
		if c.Mid == nil {
			line("a=%s", c.Candidate)
		}
	}
	for _, mid := range mids {
		line("m=%s", media)
		line("a=mid:%s", mid)
		for _, c := range f.Candidates {
			if c.Mid != nil && *c.Mid == mid {
				line("a=%s", c.Candidate)
			}
		}
	}
	if f.End {
		line("a=end-of-candidates")
	}
	return b.String()
}

// credentials returns the first ice-ufrag and ice-pwd of a description.
func credentials(sdp string) (ufrag, password string) {
	for line := range strings.SplitSeq(sdp, "\n") {
		line = strings.TrimSuffix(line, "\r")
		if v, ok := strings.CutPrefix(line, "a=ice-ufrag:"); ok && ufrag == "" {
			ufrag = v
		}
		if v, ok := strings.CutPrefix(line, "a=ice-pwd:"); ok && password == "" {
			password = v
		}
	}
	return ufrag, password
}
