package llmmock

import "time"

// Facts are what a fault may look at: the request, its connection and the state
// of the server when it arrived.
type Facts struct {
	Number  int            // of the request, from 0, in the order of arrival
	Arrived time.Duration  // on the run's clock
	Burst   int            // requests that arrived within 200 ms before it
	Idle    *time.Duration // how long the server had nothing to do; nil: it had, or this is the first request
	Prompt  int            // tokens
	Cached  int
	SSE     bool // the answer is a stream of server-sent events

	Reused  bool // the connection had a request before
	Streams int  // open on the connection before this one (HTTP/2)
	Gzip    bool // the client takes it
}

// burstWindow is how far back Facts.Burst looks.
const burstWindow = 200 * time.Millisecond
