// Package report turns the events of a run into turns, each turn into the path
// that its first sound waited for, and many turns into the answer to one
// question: where does the silence between the end of the user's speech and the
// first sound of the answer come from?
//
// Events go into an [Assembler], one by one and in any mixture of turns. It
// hands out each [Turn] when it closes. A [Summary] adds turns up and makes the
// [Report], which is written as text or as JSON. [Create] keeps a run in a
// folder, and [Open] reads it again.
//
// The package imports only the vocabulary (clocks/trace), so it reads events
// from any writer. Names, metrics and formulas are those of the project's
// metric definitions: a time is an int64 or time.Duration of nanoseconds, a
// value that does not exist is absent with a reason, and nothing is clamped.
package report
