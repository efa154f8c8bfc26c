package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	"firstsound/llm/wire"
)

// ParseURL is wire.Address for what a user wrote: its errors do not repeat the
// address, which may hold a password.
func ParseURL(text string) (*url.URL, error) {
	u, err := wire.Address(text)
	if err == nil {
		return u, nil
	}
	var wrong *url.Error
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("this is no URL of a service: %w; write one such as http://127.0.0.1:8000/v1", wrong.Err)
	}
	return nil, errors.New("the URL of a service is of http or https and has a host: write one such as https://api.example.com/v1 or http://127.0.0.1:8000/v1")
}

// PublicURL returns u without what may be secret: user, password, query and
// fragment.
func PublicURL(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// Resolve looks up the addresses of the host of u, and says whether all of them
// are of this machine.
func Resolve(ctx context.Context, u *url.URL) (addresses []string, own bool, err error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil, false, err
	}
	mine, _ := net.InterfaceAddrs() // without the list, loopback addresses are known all the same
	own = len(found) > 0
	for _, ip := range found {
		ip = ip.Unmap()
		if text := ip.String(); !slices.Contains(addresses, text) {
			addresses = append(addresses, text)
		}
		own = own && (ip.IsLoopback() || slices.ContainsFunc(mine, func(a net.Addr) bool {
			p, err := netip.ParsePrefix(a.String())
			return err == nil && p.Addr().Unmap() == ip
		}))
	}
	return addresses, own, nil
}
