// Firstsound replays recorded utterances through the stages of a voice agent
// and explains the silence before the answer.
package main

import (
	"io"
	"log"
	"os"
)

func main() {
	log.SetOutput(io.Discard) // net/http writes there what services do wrong; the commands tell that themselves
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, isTerminal(os.Stdout), isTerminal(os.Stderr), os.Getenv}))
}
