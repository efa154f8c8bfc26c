package trace

import (
	"strconv"
	"unicode/utf8"
)

// AppendJSON appends e to dst as one line of JSON, without its end, and returns
// the result. The keys have a fixed order, and what is empty is left out:
//
//	{"t_ns":12,"session":1,"turn":2,"seq":3,"mark":"vad_stop","cause":[2],
//	 "stage":"vad","setting":"vad.hangover=300ms","attempt":1,"attrs":{"step":"rag","n":4}}
//
// Bytes that are not UTF-8 become U+FFFD.
func AppendJSON(dst []byte, e *Event) []byte {
	dst = append(dst, `{"t_ns":`...)
	dst = strconv.AppendInt(dst, int64(e.At), 10)
	dst = append(dst, `,"session":`...)
	dst = strconv.AppendInt(dst, int64(e.ID.Session), 10)
	dst = append(dst, `,"turn":`...)
	dst = strconv.AppendInt(dst, int64(e.ID.Turn), 10)
	if e.Seq != None {
		dst = append(dst, `,"seq":`...)
		dst = strconv.AppendInt(dst, int64(e.Seq), 10)
	}
	dst = append(dst, `,"mark":`...)
	dst = AppendString(dst, string(e.Mark))
	if len(e.Causes) > 0 {
		dst = appendCauses(dst, e.Causes)
	}
	if e.Stage != "" {
		dst = append(dst, `,"stage":`...)
		dst = AppendString(dst, string(e.Stage))
	}
	if e.Setting != "" {
		dst = append(dst, `,"setting":`...)
		dst = AppendString(dst, e.Setting)
	}
	if e.Attempt != 0 {
		dst = append(dst, `,"attempt":`...)
		dst = strconv.AppendInt(dst, int64(e.Attempt), 10)
	}
	if len(e.Attrs) > 0 {
		dst = appendAttrs(dst, e.Attrs)
	}
	return append(dst, '}')
}

func appendCauses(dst []byte, causes []Ref) []byte {
	dst = append(dst, `,"cause":[`...)
	for i, c := range causes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(c), 10)
	}
	return append(dst, ']')
}

func appendAttrs(dst []byte, attrs []Attr) []byte {
	dst = append(dst, `,"attrs":{`...)
	for i := range attrs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(dst, attrs[i].Key)
		dst = append(dst, ':')
		if attrs[i].Text != "" {
			dst = AppendString(dst, attrs[i].Text)
		} else {
			dst = strconv.AppendInt(dst, attrs[i].Int, 10)
		}
	}
	return append(dst, '}')
}

// AppendString appends s to dst as a JSON string. Nothing is escaped that need
// not be; bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
			dst = append(dst, s[from:i]...)
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = append(dst, s[from:i]...)
			switch c {
			case '"', '\\':
				dst = append(dst, '\\', c)
			case '\n':
				dst = append(dst, '\\', 'n')
			case '\r':
				dst = append(dst, '\\', 'r')
			case '\t':
				dst = append(dst, '\\', 't')
			default:
				dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
		}
		i++
		from = i
	}
	dst = append(dst, s[from:]...)
	return append(dst, '"')
}
