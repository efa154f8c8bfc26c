package serving_test

import (
	"fmt"
	"time"

	"firstsound/llm/serving"
)

// A call asks a server for an answer, wants to know when the 12th token is out
// (the end of the first sentence), and is interrupted a second later.
func Example() {
	gpu, _ := serving.FindGPU("h100-sxm")
	model, _ := serving.FindModel("llama-3.1-8b")
	var loop serving.Loop // or a clocks.Clock
	server, err := serving.New(&loop, serving.Options{GPU: gpu, Model: model})
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := server.Submit(serving.Request{
		Prompt: 547, Output: 220, Wake: []int{12},
		Told: func(e serving.Event) { fmt.Println(e.Kind, e.Token, e.At.Round(10*time.Microsecond)) },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	loop.At(time.Second, job.Cancel)
	loop.Run(time.Minute)
	r := job.Record()
	fmt.Println(r.State, "after", r.Output, "tokens")
	// Output:
	// queued 0 8ms
	// admitted 0 8ms
	// first 1 21.3ms
	// token 12 91.49ms
	// cancelled after 154 tokens
}
