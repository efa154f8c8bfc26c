package llmmock

import (
	"bytes"
	"compress/gzip"
)

// merge puts writes together: they go out as one, when the last of them does.
func merge(w []Write) Write {
	out := Write{When: w[len(w)-1].When, End: w[len(w)-1].End}
	for i := range w {
		out.Header = out.Header || w[i].Header
		out.Data = append(out.Data, w[i].Data...)
		out.Parts = append(out.Parts, w[i].Parts...)
	}
	return out
}

// proxyBuffer holds writes back until a block is full, or all of them. The
// headers wait with the first.
func proxyBuffer(w []Write, p *Plan, _ Facts, a args) []Write {
	p.KeepAlive = 0 // the proxy holds comments back as well
	if len(w) == 0 {
		return w
	}
	size := a.number("block")
	if size == 0 {
		return []Write{merge(w)}
	}
	var out []Write
	begin, held := 0, 0
	for i := range w {
		held += len(w[i].Data)
		if held >= size || i == len(w)-1 {
			out = append(out, merge(w[begin:i+1]))
			begin, held = i+1, 0
		}
	}
	return out
}

// compress passes the writes through a gzip compressor that is only flushed
// where the parameter says so. What it holds goes out with a later write, and
// the headers with the first bytes.
func compress(w []Write, p *Plan, f Facts, a args) []Write {
	if !f.Gzip || len(w) == 0 {
		return w
	}
	p.KeepAlive = 0
	p.Header.Set("Content-Encoding", "gzip")
	p.Header.Set("Vary", "Accept-Encoding")
	flush := a.text("flush") == "yes"
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	var out []Write
	var held []Part
	for i := range w {
		z.Write(w[i].Data) // a bytes.Buffer takes everything
		held = append(held, w[i].Parts...)
		if flush {
			z.Flush()
		}
		if i == len(w)-1 && w[i].End == 0 {
			z.Close()
		}
		if buf.Len() == 0 && i < len(w)-1 || !flush && buf.Len() <= gzipHeader && i < len(w)-1 {
			continue
		}
		out = append(out, Write{When: w[i].When, Early: w[i].Early, Data: bytes.Clone(buf.Bytes()), Parts: held, End: w[i].End})
		buf.Reset()
		held = nil
	}
	return out
}

// gzipHeader is the length of a gzip header without a name: alone it says
// nothing, and is held back as Starlette's middleware does.
const gzipHeader = 10

func eachData(w []Write, change func([]byte) []byte) []Write {
	for i := range w {
		w[i].Data = change(w[i].Data)
		w[i].late = nil
	}
	return w
}

func crlf(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n")) }

func noSpace(b []byte) []byte {
	b = bytes.ReplaceAll(b, []byte("\ndata: "), []byte("\ndata:"))
	if rest, ok := bytes.CutPrefix(b, []byte("data: ")); ok {
		b = append([]byte("data:"), rest...)
	}
	return b
}

func bom(w []Write, _ *Plan, _ Facts, _ args) []Write {
	for i := range w {
		if len(w[i].Data) > 0 {
			w[i].Data, w[i].late = append([]byte("\ufeff"), w[i].Data...), nil
			break
		}
	}
	return w
}

// cutWrites cuts each write; the content counts with the last piece of it.
func cutWrites(w []Write, _ *Plan, _ Facts, a args) []Write {
	n := max(1, a.number("bytes"))
	var out []Write
	for i := range w {
		rest := w[i]
		rest.late = nil
		for len(rest.Data) > n {
			out = append(out, Write{When: rest.When, Early: rest.Early, Header: rest.Header, Data: rest.Data[:n:n]})
			rest.Data, rest.Header = rest.Data[n:], false
		}
		out = append(out, rest)
	}
	return out
}
