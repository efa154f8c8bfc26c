// Firstsound replays recorded utterances through the stages of a voice agent
// and explains the silence before the answer.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr, isTerminal(os.Stdout), isTerminal(os.Stderr), os.Getenv}))
}
