package rtc

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/pion/sdp/v3"
	"github.com/pion/webrtc/v4"

	"firstsound/audio/codec"
)

// mime returns the name of a codec in pion.
func mime(c codec.Codec) string {
	switch c.Name {
	case codec.PCMU:
		return webrtc.MimeTypePCMU
	case codec.PCMA:
		return webrtc.MimeTypePCMA
	}
	return webrtc.MimeTypeOpus
}

func mimeIs(name string, c codec.Codec) bool { return strings.EqualFold(name, mime(c)) }

func parameters(c codec.Codec) webrtc.RTPCodecParameters {
	p := webrtc.RTPCodecParameters{
		RTPCodecCapability: webrtc.RTPCodecCapability{MimeType: mime(c), ClockRate: c.ClockRate},
		PayloadType:        webrtc.PayloadType(c.PayloadType),
	}
	if c.Name == codec.Opus {
		p.Channels = uint16(c.Channels)
		p.SDPFmtpLine = "minptime=10;useinbandfec=1"
	}
	return p
}

// An offered is what has to be known of an offer before there is a peer.
type offered struct {
	codec    codec.Codec // the one to speak, in an answer
	named    bool        // the other side's candidates may be names under .local, which are asked for by multicast
	channels bool        // there are data channels
}

// readOffer reads an offer, and chooses the first of our codecs that is in it.
func readOffer(text string, ours []codec.Codec) (o offered, err error) {
	d, err := readSDP(text)
	if err != nil {
		return o, err
	}
	var names []string
	heard := false
	for _, m := range d.MediaDescriptions {
		if m.MediaName.Media == "application" {
			o.channels = true
		}
		if m.MediaName.Media != "audio" {
			continue
		}
		heard = true
		names = append(names, codecsOf(m)...)
	}
	if !heard {
		return o, fmt.Errorf("rtc: the offer has no audio")
	}
	i := slices.IndexFunc(ours, func(c codec.Codec) bool { return slices.Contains(names, sdpName(c)) })
	if i < 0 {
		var want []string
		for _, c := range ours {
			want = append(want, sdpName(c))
		}
		return o, fmt.Errorf("rtc: no codec in common: the offer has %s, and this side speaks %s", strings.Join(names, ", "), strings.Join(want, ", "))
	}
	o.codec = ours[i]
	n, named := candidates(text)
	o.named = named > 0 || n == 0
	return o, nil
}

func readSDP(text string) (*sdp.SessionDescription, error) {
	if len(text) > maxSDP {
		return nil, fmt.Errorf("rtc: the description has %d bytes: the most is %d", len(text), maxSDP)
	}
	var d sdp.SessionDescription
	if err := d.UnmarshalString(text); err != nil {
		return nil, fmt.Errorf("rtc: the description is no SDP: %w", err)
	}
	if n := len(d.MediaDescriptions); n > maxMedia {
		return nil, fmt.Errorf("rtc: the description has %d media sections: the most is %d", n, maxMedia)
	}
	if n := strings.Count(text, "\na=candidate:"); n > maxCandidates {
		return nil, fmt.Errorf("rtc: the description has %d candidates: the most is %d", n, maxCandidates)
	}
	return &d, nil
}

// directions says whether the side that a description is of takes our sound, and
// whether it sends sound.
func directions(d *sdp.SessionDescription) (takes, sends bool) {
	for _, m := range d.MediaDescriptions {
		if m.MediaName.Media != "audio" || m.MediaName.Port.Value == 0 {
			continue
		}
		direction := "sendrecv" // RFC 8866, section 6.7
		for _, a := range slices.Concat(d.Attributes, m.Attributes) {
			switch a.Key {
			case "sendrecv", "sendonly", "recvonly", "inactive":
				direction = a.Key
			}
		}
		takes = takes || direction == "sendrecv" || direction == "recvonly"
		sends = sends || direction == "sendrecv" || direction == "sendonly"
	}
	return takes, sends
}

// sdpName is how a codec is compared: name/rate/channels, in lower case.
func sdpName(c codec.Codec) string {
	s := c.Name + "/" + strconv.Itoa(int(c.ClockRate))
	if c.Channels > 1 {
		s += "/" + strconv.Itoa(c.Channels)
	}
	return s
}

// codecsOf returns the codecs of a media section as sdpName has them. PCMU and
// PCMA need no rtpmap (RFC 3551, section 6).
func codecsOf(m *sdp.MediaDescription) []string {
	named := map[string]string{"0": "pcmu/8000", "8": "pcma/8000"}
	for _, a := range m.Attributes {
		if pt, name, ok := strings.Cut(a.Value, " "); ok && a.Key == "rtpmap" {
			named[pt] = strings.TrimSuffix(strings.ToLower(name), "/1")
		}
	}
	var out []string
	for _, pt := range m.MediaName.Formats {
		if name, ok := named[pt]; ok {
			out = append(out, name)
		}
	}
	return out
}

// candidates counts the candidates for RTP in a description, and how many of them
// are names under .local (mDNS).
func candidates(text string) (n, named int) {
	for f := range candidateFields(text) {
		n++
		if strings.HasSuffix(f[4], ".local") {
			named++
		}
	}
	return n, named
}

// onlyLoopback says that all candidates are of the loopback interface.
func onlyLoopback(text string) bool {
	for f := range candidateFields(text) {
		if !strings.HasPrefix(f[4], "127.") {
			return false
		}
	}
	return true
}

// candidateFields yields foundation, component, protocol, priority, address and so
// on of the candidates in a description (RFC 8839, section 5.1). The component of
// RTP is 1.
func candidateFields(text string) iter.Seq[[]string] {
	return func(yield func([]string) bool) {
		for line := range strings.Lines(text) {
			c, ok := strings.CutPrefix(line, "a=candidate:")
			if f := strings.Fields(c); ok && len(f) > 5 && f[1] == "1" && !yield(f) {
				return
			}
		}
	}
}
