package llmmock

import (
	"net/http"
	"time"

	"firstsound/llm"
)

// A When is a moment in the life of a request: After a gate. Gate 0 is the
// request's arrival, which is always known. Gate 1 is the moment at which the
// service begins to work on it, or, where an inference server is modelled, its
// first token; the gates after that are then its further tokens.
type When struct {
	Gate  int
	After time.Duration
}

// before orders moments: a later gate is later.
func (w When) before(v When) bool {
	return w.Gate < v.Gate || w.Gate == v.Gate && w.After < v.After
}

// A Kind says what a Piece is.
type Kind int

// The kinds of pieces.
const (
	Headers   Kind = iota // the status line and the headers, ahead of the body
	Role                  // an event that only has the role
	Blank                 // an event whose content is ""
	Null                  // an event whose content is null
	Text                  // visible content
	Reasoning             // reasoning
	Call                  // a tool call begins: Text is its name
	Arguments             // a part of the call's arguments
	Finish                // the reason in Text
	Usage                 // Count, in an event of its own where the dialect has one
	End                   // the dialect's end mark
	Comment               // a comment of the stream with Text
	Filter                // Azure's event without choices
	Progress              // llama.cpp's progress of the prefill
	Failure               // an error object with the message in Text
	Raw                   // the bytes of Text as they are
	Cut                   // nothing: what follows is written apart
	Reset                 // the connection is reset
	Abort                 // the connection is closed without the body's end
	Hang                  // nothing more comes, and the connection stays open
)

// A Field says where reasoning is put.
type Field int

// The fields of reasoning.
const (
	OwnField  Field = iota // the dialect's own
	InContent              // delta.reasoning_content
	InShort                // delta.reasoning
	InBoth                 // both of them
)

// A Count is a number of tokens as a service counts them.
type Count struct{ Output, Prompt, Cached, Reasoning int }

// A Piece is an event of an answer.
type Piece struct {
	When   When
	Kind   Kind
	Text   string
	Tokens int    // in Text
	Join   bool   // goes out with the write of the piece before, if it has the same moment
	Early  bool   // comes before the service works on the request, whatever else delays it
	Count  *Count // of Usage; of any other piece: the count so far is told with it
	Bare   bool   // of Usage: an event without the key choices
	Field  Field  // of Reasoning
}

// visible says whether the piece brings content that a user sees.
func (p *Piece) visible() bool { return p.Kind == Text && p.Text != "" }

// A Plan is what an answer is to be: a schedule of its events, before any of
// them is written. Faults are functions of it.
type Plan struct {
	Status int         // 200, or the status of a refusal
	Header http.Header // besides the dialect's own
	Body   string      // of a refusal: the message

	Pieces []Piece

	Start   time.Duration // from the arrival until the service takes it up: drawn delays
	Queue   time.Duration // the part of Start in which it waits for its turn
	Load    time.Duration // the part of Start in which a model is loaded
	Prefill time.Duration // from Start to the first token; not known where a server is modelled

	KeepAlive time.Duration // a comment as often as this, until the first piece that is not early; 0: none
	Calls     []llm.ToolCall
	Usage     Count
	Steps     int      // of a modelled server: tokens that it has to make
	Timed     bool     // all times are known: no server is modelled
	Script    bool     // from a script: nothing is added to it
	Faults    []string // names of those that took part
}

// first returns the index of the first piece that the service works for, len if
// there is none.
func (p *Plan) first() int {
	for i := range p.Pieces {
		if !p.Pieces[i].Early && p.Pieces[i].Kind != Headers {
			return i
		}
	}
	return len(p.Pieces)
}

// content returns the index of the n-th piece with content or reasoning, counted
// from 0, or the last place before the finish if there are fewer.
func (p *Plan) content(n int) int {
	for i := range p.Pieces {
		switch p.Pieces[i].Kind {
		case Text, Reasoning, Arguments:
			if n == 0 {
				return i
			}
			n--
		case Finish:
			return i
		}
	}
	return len(p.Pieces)
}

// last returns the moment of the last piece.
func (p *Plan) last() When {
	var w When
	for i := range p.Pieces {
		if w.before(p.Pieces[i].When) {
			w = p.Pieces[i].When
		}
	}
	return w
}

// later moves all pieces from i on by d.
func (p *Plan) later(i int, d time.Duration) {
	for ; i < len(p.Pieces); i++ {
		p.Pieces[i].When.After += d
	}
}

// cutAt drops the pieces from i on and puts those of end in their place, at the
// moment of the piece before.
func (p *Plan) cutAt(i int, end ...Piece) {
	var w When
	if i > 0 {
		w = p.Pieces[i-1].When
	}
	p.Pieces = p.Pieces[:i:i]
	for _, e := range end {
		e.When = w
		p.Pieces = append(p.Pieces, e)
	}
}

// insert puts a piece before the piece i.
func (p *Plan) insert(i int, e Piece) {
	p.Pieces = append(p.Pieces[:i:i], append([]Piece{e}, p.Pieces[i:]...)...)
}

// A Write is what goes out at once: bytes that are ready before their moment.
type Write struct {
	When   When
	Early  bool
	Header bool   // the headers go out, and Data after them
	Data   []byte // of the body
	Parts  []Part // the content that ends in Data
	End    Kind   // Reset, Abort or Hang after Data; else 0
	late   []Piece
}

// A Part is the content of one event of a Write.
type Part struct {
	Tokens    int
	Reasoning bool
}

// writes renders the plan: one Write for each group of pieces that are joined.
func (p *Plan) writes(r renderer) []Write {
	out := make([]Write, 0, len(p.Pieces)+1)
	cut := true
	var pieces []Piece
	arena := make([]byte, 0, 256*len(p.Pieces)) // of all the data: few pieces are longer
	starts := make([]int, 0, len(p.Pieces)+1)
	for i := range p.Pieces {
		e := &p.Pieces[i]
		if e.Kind == Cut {
			cut = true
			continue
		}
		if cut || !e.Join || len(out) == 0 || e.When != out[len(out)-1].When {
			out = append(out, Write{When: e.When, Early: e.Early})
			starts = append(starts, len(arena))
			pieces = pieces[:0]
		}
		cut = false
		w := &out[len(out)-1]
		switch e.Kind {
		case Headers:
			w.Header = true
		case Reset, Abort, Hang:
			w.End = e.Kind
			cut = true
		default:
			if e.visible() || e.Kind == Reasoning && e.Text != "" {
				w.Parts = append(w.Parts, Part{Tokens: e.Tokens, Reasoning: e.Kind == Reasoning})
			}
			arena = r.append(arena, e, nil)
			pieces = append(pieces, *e)
			if r.timed(e) && !p.Timed {
				w.late = append([]Piece(nil), pieces...)
			} else if w.late != nil {
				w.late = append(w.late, *e)
			}
		}
	}
	starts = append(starts, len(arena))
	for i := range out {
		out[i].Data = arena[starts[i]:starts[i+1]:starts[i+1]]
	}
	return out
}
