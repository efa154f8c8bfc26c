package impair

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Rewrite returns the description of a side's peer with its host candidates replaced
// by the relay's, so that what the other peer sends goes through it. All other
// candidates go, since they would lead around the relay; the second value has them,
// each with the reason. It fails if none of the agent's candidates stays, unless the
// description has none at all and they are still to come. Those of the client, which
// are often names under .local, may all go: the agent learns of it by its checks.
func (r *Relay) Rewrite(side Side, sdp string) (rewritten string, removed []string, err error) {
	end := "\n"
	if strings.Contains(sdp, "\r\n") {
		end = "\r\n"
	}
	var out []string
	all, kept := 0, 0
	for line := range strings.SplitSeq(sdp, "\n") {
		line = strings.TrimSuffix(line, "\r")
		switch {
		case strings.HasPrefix(line, "a=candidate:"):
			all++
			candidate, why, err := r.Candidate(side, strings.TrimPrefix(line, "a="))
			if err != nil {
				return "", nil, err
			}
			if why != "" {
				removed = append(removed, line[len("a="):]+": "+why)
				continue
			}
			kept++
			line = "a=" + candidate
		case strings.HasPrefix(line, "c="):
			// The addresses of peers without ICE (RFC 8839, section 4.2.1): none.
			line = "c=IN IP4 0.0.0.0"
		case strings.HasPrefix(line, "a=rtcp:"):
			line = "a=rtcp:9 IN IP4 0.0.0.0"
		case strings.HasPrefix(line, "m="):
			if f := strings.Fields(line); len(f) > 2 && f[1] != "0" { // 0: refused
				f[1] = "9"
				line = strings.Join(f, " ")
			}
		}
		out = append(out, line)
	}
	if side == Agent && all > 0 && kept == 0 {
		return "", removed, fmt.Errorf("impair: the %s has no UDP host candidate with an address: %s", side, strings.Join(removed, "; "))
	}
	return strings.Join(out, end), removed, nil
}

// Candidate returns a candidate line ("candidate:…", as trickle ICE has it) of a
// side's peer with the relay's address, or says why it has to be left out. An empty
// one, the end of the candidates, stays as it is.
func (r *Relay) Candidate(side Side, line string) (rewritten, why string, err error) {
	if line == "" {
		return "", "", nil
	}
	// foundation component transport priority address port typ type …: RFC 8839, section 5.1
	f := strings.Fields(line)
	if len(f) < 8 || !strings.HasPrefix(f[0], "candidate:") || f[6] != "typ" {
		return "", "", fmt.Errorf("impair: %.80q is no candidate", line)
	}
	if !strings.EqualFold(f[2], "udp") {
		return "", "it is not UDP", nil
	}
	if f[7] != "host" {
		return "", "its type is " + f[7], nil
	}
	addr, err := netip.ParseAddr(f[4])
	if err != nil {
		return "", "it is a name and no address", nil
	}
	port, err := strconv.ParseUint(f[5], 10, 16)
	if err != nil || port == 0 {
		return "", "", fmt.Errorf("impair: %.80q has no port", line)
	}
	to, err := r.Stand(side, netip.AddrPortFrom(addr, uint16(port)))
	if err != nil {
		return "", "", err
	}
	f[4], f[5] = to.Addr().String(), strconv.Itoa(int(to.Port()))
	return strings.Join(f, " "), "", nil
}
