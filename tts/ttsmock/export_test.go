package ttsmock

// Tone is a second of what the mock says.
var Tone = toneAt
