package main

import (
	"reflect"
	"strings"
)

// speechKeys say what the options of real recognizers and synthesizers mean, whose
// packages have them by the services' own names: by stage and key, or where they
// differ by stage, provider and key.
var speechKeys = map[string]string{
	"asr.url":                              "Where it is, as ws:// or wss://, http:// or https://, or for wyoming tcp://. Empty: the service's own, or the usual port on this computer.",
	"asr.api":                              "Which of the service's interfaces.",
	"asr.model":                            "The service's name of the model.",
	"asr.sample_rate":                      "Samples a second that it is sent. Sound of another rate is resampled.",
	"asr.interim_results":                  "Partial transcripts.",
	"asr.endpointing":                      "Milliseconds of silence that make an endpoint. 0: none.",
	"asr.utterance_end_ms":                 "Milliseconds without a new word after which UtteranceEnd comes. 0: never; at least 1000.",
	"asr.no_delay":                         "Do not wait for more context to format numbers.",
	"asr.smart_format":                     "Format dates, numbers and the like.",
	"asr.punctuate":                        "Punctuation and capitals.",
	"asr.eot_threshold":                    "Of Flux: how sure it has to be that the turn is over. 0: the service's own.",
	"asr.eager_eot_threshold":              "Of Flux: … for an early guess. 0: the service's own.",
	"asr.eot_timeout_ms":                   "Of Flux: milliseconds of silence that end a turn in any case. 0: the service's own.",
	"asr.speech_model":                     "The service's name of the model.",
	"asr.format_turns":                     "Punctuation, capitals and numbers in digits; the final comes later.",
	"asr.end_of_turn_confidence_threshold": "How sure the service has to be that the turn is over. 0: its own.",
	"asr.min_turn_silence":                 "Milliseconds of silence that end a turn of which it is that sure. 0: the service's own.",
	"asr.max_turn_silence":                 "Milliseconds of silence that end a turn in any case. 0: the service's own.",
	"asr.keyterms_prompt":                  "Words that help the model: names, terms.",
	"asr.prompt":                           "Words that help the model: names, terms.",
	"asr.stream":                           "The transcript comes word by word.",
	"asr.turn_detection":                   "server_vad: the service finds the ends of turns. none: the client says so.",
	"asr.threshold":                        "Of server_vad: how loud speech is, 0 to 1.",
	"asr.prefix_padding_ms":                "Of server_vad: milliseconds of sound before the speech that are kept.",
	"asr.silence_duration_ms":              "Of server_vad: milliseconds of silence that end a turn.",
	"asr.noise_reduction":                  "near_field or far_field. Empty: none.",
	"asr.quirk":                            "Which server it is: cpp, py-old or py-new.",
	"asr.mode":                             "2pass (partials, then a better final), online or offline.",
	"asr.chunk_size":                       "Look-back, chunk and look-ahead, in units of 60 ms.",
	"asr.chunk_interval":                   "Messages for each chunk.",
	"asr.audio_fs":                         "Samples a second that it is sent. Sound of another rate is resampled.",
	"asr.itn":                              "Numbers in digits.",
	"asr.hotwords":                         "A JSON object of words and weights, as text.",
	"asr.max_sentence_silence":             "Milliseconds of silence that end a sentence.",
	"asr.phrase_list":                      "All that can be said. []: anything.",
	"asr.rate":                             "Samples a second that it is sent. Sound of another rate is resampled.",
	"asr.name":                             "Name of the model. Empty: the server's choice.",
	"asr.pocketsphinx.model":               "Folder of the model. Empty: that of Debian's pocketsphinx-en-us.",
	"asr.dict":                             "File of the dictionary. Empty: the model's.",
	"asr.lm":                               "File of the language model. Empty: the model's.",
	"asr.grammar":                          "A JSGF grammar of all that can be said, in place of the language model.",
	"asr.maxhmmpf":                         "Most active states a frame: less is faster and worse. 0: no limit.",
	"asr.ds":                               "The acoustic model looks at one frame of so many.",
	"asr.fwdflat":                          "A second pass at the end, which takes 130 ms and more.",
	"asr.bestpath":                         "A third pass.",
	"asr.spare":                            "Decoders that are kept ready: as many as there are calls at a time.",
	"tts.url":                              "Where it is. Empty: the service's own, or the usual port on this computer.",
	"tts.api":                              "Which of the service's interfaces.",
	"tts.model":                            "The service's name of the model.",
	"tts.deepgram.model":                   "The voice.",
	"tts.model_id":                         "The service's name of the model.",
	"tts.voice":                            "The service's name of the voice, or its ID.",
	"tts.flite.voice":                      "slt, awb, rms, kal or kal16.",
	"tts.espeak.voice":                     "Where voices has none for the language.",
	"tts.response_format":                  "pcm, wav, mp3 or opus.",
	"tts.stream_format":                    "audio or sse. Empty: the service's choice.",
	"tts.speed":                            "Of the speech, by its usual one. 0: not sent.",
	"tts.espeak.speed":                     "Words a minute.",
	"tts.instructions":                     "How it is to be spoken.",
	"tts.sample_rate":                      "Samples a second of the sound.",
	"tts.output_format":                    "pcm_RATE, ulaw_8000, alaw_8000, or for api stream mp3_RATE_KBPS, opus_48000_KBPS.",
	"tts.auto_mode":                        "The service does not wait for more text than a piece.",
	"tts.inactivity_timeout":               "Seconds after which the service closes an idle connection.",
	"tts.keep_alive":                       "How long a connection is kept for the next answer. 0s: not at all.",
	"tts.cartesia_version":                 "Version of the interface: a date.",
	"tts.container":                        "Of bytes, or http: raw (none) or wav.",
	"tts.encoding":                         "How samples are sent, in the service's words.",
	"tts.max_buffer_delay_ms":              "Milliseconds that the service waits for more text. 0: it speaks each piece at once.",
	"tts.add_timestamps":                   "When the words begin.",
	"tts.format":                           "pcm, wav, mp3 or opus.",
	"tts.volume":                           "0 to 100.",
	"tts.rate":                             "Of the speech, 0.5 to 2.",
	"tts.pitch":                            "0.5 to 2.",
	"tts.espeak.pitch":                     "0 to 99.",
	"tts.length_scale":                     "Of the speech: above 1 is slower. 0: the voice's own.",
	"tts.speaker":                          "Of a voice with several.",
	"tts.min_buffsize":                     "Samples of a chunk, at least.",
	"tts.stretch":                          "How much slower than usual.",
	"tts.program":                          "Its path, or its name in PATH.",
	"tts.gap":                              "Pause between words, in units of 10 ms.",
	"tts.voices.cmn":                       "Voice of a language: Mandarin.",
	"tts.voices.en":                        "… English.",
	"tts.voices.yue":                       "… Cantonese.",
	"tts.voices.zh":                        "… Chinese.",
}

// speechComment says what an option of a real recognizer or synthesizer means.
func (p provider) speechComment(key string) string {
	if text := speechKeys[p.stage+"."+p.name+"."+key]; text != "" {
		return text
	}
	return speechKeys[p.stage+"."+key]
}

// real says whether p is a real recognizer or synthesizer.
func (p provider) real() bool { return p.needs.url != "" || p.needs.packages != nil }

// aboutTag returns the tag "about" of the option key of a struct, those in it that
// are inline among them.
func aboutTag(t reflect.Type, key string) string {
	for f := range t.Fields() {
		name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == key {
			return f.Tag.Get("about")
		}
		if rest == "inline" && f.Type.Kind() == reflect.Struct {
			if text := aboutTag(f.Type, key); text != "" {
				return text
			}
		}
	}
	return ""
}
