package ttsmock

// piperHTTP reads a request for Piper's /synthesize. Unlike Piper, the mock sends the
// WAV while it is made: a whole one is a chunk as long as the speech.
func piperHTTP(q *request) {
	q.text = q.field("text")
	q.format = format{encoding: "s16", rate: 22050, wav: true}
	q.mime = "audio/wav"
}
