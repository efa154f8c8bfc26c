package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"firstsound/llm/record"
	"firstsound/llm/serverside"
)

// serverLogs are the logs of a server that a run is joined with.
type serverLogs struct {
	files            []string
	format, fieldMap string
	options          serverside.Options
}

func (l *serverLogs) flags(f *pflag.FlagSet) {
	f.StringArrayVar(&l.files, "server-log", nil, "join the server's own log with the requests, one by one (`FILE`); of\nseveral, such as nginx's and then vLLM's, the later wins")
	f.StringVar(&l.format, "server-log-format", string(serverside.Auto), "`FORMAT` of it:\n"+joinedFormats())
	f.StringVar(&l.fieldMap, "server-log-map", "", "where things are in a log of JSON lines (`MAP`), such as\nrequest_id=rid,arrived=ts:unix_ms,ttft=metrics.ttft:ms,queue=metrics.queue:s")
}

func joinedFormats() string {
	var names []string
	for _, f := range serverside.Formats {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// check looks whether the logs are there and can be read, so that nobody measures
// for minutes and learns then that they cannot.
func (l *serverLogs) check() error {
	var err error
	if l.options.Format, err = serverside.ParseFormat(l.format); err != nil {
		return usagef("--server-log-format: %w", err)
	}
	if l.fieldMap != "" {
		if l.options.Map, err = serverside.ParseFieldMap(l.fieldMap); err != nil {
			return usagef("--server-log-map: %w", err)
		}
	}
	switch f := l.options.Format; {
	case len(l.files) == 0 && (l.fieldMap != "" || f != serverside.Auto):
		return usagef("--server-log-format and --server-log-map are of --server-log: name one")
	case f == serverside.JSONL && l.fieldMap == "":
		return usagef("--server-log-format jsonl needs --server-log-map, such as request_id=rid,ttft=metrics.ttft:ms")
	case l.fieldMap != "" && f != serverside.Auto && f != serverside.JSONL:
		return usagef("--server-log-map is for logs of JSON lines, not for the format %s", f)
	}
	for _, name := range l.files {
		info, err := os.Stat(name)
		if err != nil {
			return usagef("--server-log: %w", err)
		}
		if info.IsDir() {
			return usagef("--server-log: %s is a folder; name the log itself", name)
		}
		if info.Mode().IsRegular() {
			if err := serverside.Check(name, l.options); err != nil {
				return usagef("--server-log: %w", err)
			}
		}
	}
	return nil
}

// join fills in what the logs say of the attempts, and returns those of which
// they say something.
func (l *serverLogs) join(attempts []*record.Attempt) (joins []joinedLog, told []*record.Attempt, err error) {
	for _, name := range l.files {
		log, err := serverside.ReadFile(name, l.options)
		if err != nil {
			return nil, nil, err
		}
		r := serverside.Join(attempts, log)
		for _, p := range r.Pairs {
			told = append(told, p.Attempt)
		}
		joins = append(joins, joinedLog{Log: name, Lines: log.Lines, Unknown: log.Unknown, TooLong: log.TooLong, Wrong: log.Faults, Result: r})
	}
	return joins, told, nil
}

// A joinedLog is what came of joining a log.
type joinedLog struct {
	Log     string          `json:"log"`
	Lines   int             `json:"lines"`
	Unknown int             `json:"lines_unknown"` // that mean nothing to the reader: most of a log
	TooLong int             `json:"lines_too_long,omitempty"`
	Wrong   serverside.Some `json:"lines_wrong"` // that cannot be right
	*serverside.Result
}

// text is the section of a report.
func (j *joinedLog) text(width int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nServer's log  %s, %s\n", printable(j.Log), plural(j.Lines, "line"))
	b.WriteString(wrap(printable(j.Result.String()), width, "  "))
	if j.TooLong > 0 {
		fmt.Fprintf(&b, "  %s longer than 1 MB, left out\n", plural(j.TooLong, "line"))
	}
	for _, some := range []struct {
		what string
		s    serverside.Some
	}{{"not in the log", j.NoEntry}, {"twice in the log", j.Duplicates}, {"ambiguous", j.Ambiguous}, {"fault", j.Faults}, {"wrong", j.Wrong}} {
		for _, x := range some.s.Examples[:min(len(some.s.Examples), 2)] {
			b.WriteString(wrap(some.what+", such as: "+printable(x), width, "    "))
		}
	}
	return b.String()
}
