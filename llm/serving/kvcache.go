package serving

// A Span is the head of a prompt that other requests share. Two requests with
// one Key have the same text as far as both spans reach.
type Span struct {
	Key    uint64 // 0: no span
	Tokens int
}

// A run is a number of free blocks, or a prefix whose blocks are kept together.
//
// Blocks are counted, not numbered. What can be found again is a prefix: the
// blocks of a session's history or of a system prompt, from its beginning on.
// vLLM frees the blocks of a request from the last to the first and takes the
// one that has been free for longest, so a prefix loses its end first: a count
// is enough to say what is left of it.
type run struct {
	prev, next *run // in the list of free blocks, while it is there
	key        uint64
	blocks     int
	users      int  // running requests that hold the prefix; it is not free while there are any
	prefix     bool // or nothing but free blocks
}

// A kvCache hands out blocks. A free block with a prefix in it serves both ends:
// it can be found again until it is taken for something else.
type kvCache struct {
	total, free int
	least       int // that were ever free
	oldest      run // the list's anchor: next is free for longest, prev was freed last
	prefixes    map[uint64]*run
	spare       []*run
	caching     bool
}

func newKVCache(blocks int, caching bool) *kvCache {
	c := &kvCache{total: blocks, caching: caching, prefixes: map[uint64]*run{}}
	c.oldest.prev, c.oldest.next = &c.oldest, &c.oldest
	c.freePlain(blocks)
	c.least = blocks
	return c
}

func (c *kvCache) unlink(r *run) {
	r.prev.next, r.next.prev = r.next, r.prev
	r.prev, r.next = nil, nil
}

func (c *kvCache) linkAfter(at, r *run) {
	r.prev, r.next = at, at.next
	at.next.prev = r
	at.next = r
}

// freePlain adds n blocks that hold nothing anybody could look for.
func (c *kvCache) freePlain(n int) {
	if n == 0 {
		return
	}
	c.free += n
	if last := c.oldest.prev; last != &c.oldest && !last.prefix {
		last.blocks += n
		return
	}
	c.linkAfter(c.oldest.prev, c.plain(n))
}

func (c *kvCache) plain(n int) *run {
	if last := len(c.spare) - 1; last >= 0 {
		r := c.spare[last]
		c.spare = c.spare[:last]
		*r = run{blocks: n}
		return r
	}
	return &run{blocks: n}
}

// take takes n blocks, of which there have to be that many free.
func (c *kvCache) take(n int) {
	c.free -= n
	c.least = min(c.least, c.free)
	for n > 0 {
		r := c.oldest.next
		some := min(n, r.blocks)
		r.blocks -= some
		n -= some
		if r.blocks > 0 {
			return
		}
		c.unlink(r)
		if !r.prefix {
			c.spare = append(c.spare, r)
		} else if r.key != 0 {
			delete(c.prefixes, r.key)
		}
	}
}

// heldTo returns how many blocks of the prefix are there, up to a limit.
func heldTo(r *run, limit int) int {
	if r == nil {
		return 0
	}
	return max(0, min(r.blocks, limit))
}

// freeIn returns how many of the free blocks are those of r.
func freeIn(r *run) int {
	if r == nil || r.users > 0 {
		return 0
	}
	return r.blocks
}

// hold keeps a prefix from being taken.
func (c *kvCache) hold(r *run) {
	if r.users == 0 && r.next != nil {
		c.free -= r.blocks
		c.least = min(c.least, c.free)
		c.unlink(r)
	}
	r.users++
}

// cut frees what r has beyond n blocks: the text went on differently.
func (c *kvCache) cut(r *run, n int) {
	if r.users != 1 || r.blocks <= n {
		return // somebody else holds it, or there is nothing
	}
	old := r.blocks - n
	r.blocks = n
	c.free += old
	if first := c.oldest.next; first != &c.oldest && !first.prefix {
		first.blocks += old
		return
	}
	c.linkAfter(&c.oldest, c.plain(old))
}

// letGo is the end of a hold.
func (c *kvCache) letGo(r *run) {
	if r.users--; r.users > 0 {
		return
	}
	if r.blocks == 0 {
		if r.key != 0 {
			delete(c.prefixes, r.key)
		}
		return
	}
	c.free += r.blocks
	c.linkAfter(c.oldest.prev, r)
}

// named returns the prefix of that key, and makes it if there is none.
func (c *kvCache) named(key uint64) *run {
	r := c.prefixes[key]
	if r == nil {
		r = &run{key: key, prefix: true}
		c.prefixes[key] = r
	}
	return r
}

// find looks up what is left of a job's prefixes, in blocks: of the shared span,
// and of its own after that. At least one token is left to compute.
func (c *kvCache) find(j *Job) (shared, own int) {
	if !c.caching {
		return 0, 0
	}
	limit := (j.prompt + j.generated - 1) / BlockTokens
	whole := j.req.Shared.Tokens / BlockTokens
	if j.req.Shared.Key != 0 {
		shared = heldTo(c.prefixes[j.req.Shared.Key], min(whole, limit))
		if shared < whole {
			return shared, 0
		}
	}
	before := j.own
	if before == nil && j.req.Session.Key != 0 {
		before = c.prefixes[j.req.Session.Key]
	}
	known := max(j.req.Session.Tokens, j.known)/BlockTokens - shared
	return shared, heldTo(before, min(known, limit-shared))
}

// fits says whether a job could be given blocks for its first tokens, of which
// the ones in its prefixes are there already.
func (c *kvCache) fits(j *Job, tokens, shared, own int) bool {
	need := blocksOf(tokens) - shared - own
	if shared > 0 {
		need += freeIn(c.prefixes[j.req.Shared.Key])
	}
	if own > 0 {
		before := j.own
		if before == nil {
			before = c.prefixes[j.req.Session.Key]
		}
		need += freeIn(before)
	}
	return need <= c.free
}

// admit holds the prefixes that find found and takes the rest.
func (c *kvCache) admit(j *Job, tokens, shared, own int) {
	j.sharedBlocks, j.ownBlocks = shared, own
	if shared > 0 {
		j.shared = c.prefixes[j.req.Shared.Key]
		c.hold(j.shared)
	}
	if own > 0 {
		if j.own == nil {
			j.own = c.prefixes[j.req.Session.Key]
		}
		c.hold(j.own)
		c.cut(j.own, own)
	} else {
		j.own = nil
	}
	c.take(blocksOf(tokens) - shared - own)
}

// publish makes the first tokens of a job, which have been computed, findable.
// Where another request was first with the same piece, the job keeps a copy.
func (c *kvCache) publish(j *Job, tokens int) {
	if !c.caching {
		return
	}
	full := tokens / BlockTokens
	whole := 0
	if key := j.req.Shared.Key; key != 0 {
		whole = j.req.Shared.Tokens / BlockTokens
		if j.shared == nil {
			j.shared = c.named(key)
			c.hold(j.shared)
		}
		if to := min(whole, full); j.shared.blocks == j.sharedBlocks && to > j.sharedBlocks {
			j.shared.blocks, j.sharedBlocks = to, to
		}
	}
	if j.own == nil && j.req.Session.Key != 0 {
		j.own = c.named(j.req.Session.Key)
		c.hold(j.own)
		c.cut(j.own, 0)
	}
	if j.own == nil {
		return
	}
	c.cut(j.own, j.ownBlocks)
	if to := full - whole; j.own.blocks == j.ownBlocks && to > j.ownBlocks {
		j.own.blocks, j.ownBlocks = to, to
	}
}

// release gives back all that a job holds, with that many tokens computed. again
// says that it will come back for them.
func (c *kvCache) release(j *Job, tokens int, again bool) {
	if again && c.caching && j.own == nil && j.req.Session.Key == 0 {
		j.own = &run{prefix: true} // nobody else can ask for it
		c.hold(j.own)
	}
	c.publish(j, tokens)
	c.freePlain(blocksOf(tokens) - j.sharedBlocks - j.ownBlocks)
	if own := j.own; own != nil {
		c.letGo(own)
		if !again || own.key != 0 {
			j.own = nil
		}
		if !again && own.key == 0 && own.next != nil {
			own.prefix = false // its text is of no use to anybody now
		}
	}
	if j.shared != nil {
		c.letGo(j.shared)
		j.shared = nil
	}
	j.sharedBlocks, j.ownBlocks = 0, 0
	if again {
		j.known = tokens
	}
}

// forget is the end of a job that waits to run again.
func (c *kvCache) forget(j *Job) {
	if own := j.own; own != nil && own.next != nil {
		own.prefix = false
	}
	j.own = nil
}

func blocksOf(tokens int) int { return (tokens + BlockTokens - 1) / BlockTokens }
