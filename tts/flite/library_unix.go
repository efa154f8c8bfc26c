//go:build (linux || darwin || freebsd) && (amd64 || arm64)

package flite

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// library is Flite in this process.
type library struct {
	free chan struct{} // holds one token while nobody speaks

	newUtterance  func() unsafe.Pointer
	setText       func(u unsafe.Pointer, text string)
	deleteU       func(u unsafe.Pointer)
	doSynth       func(u unsafe.Pointer, v *voice, synth uintptr) unsafe.Pointer
	newStreaming  func() *streaming
	streamingVal  func(*streaming) unsafe.Pointer
	featSet       func(features unsafe.Pointer, name *byte, val unsafe.Pointer)
	featSetFloat  func(features unsafe.Pointer, name *byte, x float32)
	synth         uintptr // utt_synth
	callback      uintptr
	streamingName []byte // the library keeps pointers to these names
	stretchName   []byte

	voices  map[string]*voice
	current *utterance // that is being spoken
}

// The beginnings of structures of the library, as its headers have them
// (cst_voice.h, cst_audio.h, cst_wave.h of Flite 2.2).
type (
	voice struct {
		name     uintptr
		features unsafe.Pointer
	}
	streaming struct {
		minBuffer int32
		_         int32
		callback  uintptr
	}
	wave struct {
		kind                    uintptr
		rate, samples, channels int32
		_                       int32
		data                    *int16
	}
)

// What the callback returns.
const (
	goOn = 0
	halt = 1
)

// load opens the library, once in a process: its voices are the process's, and a
// callback is never given back.
var load = sync.OnceValues(open)

func open() (lib *library, err error) {
	defer func() {
		if r := recover(); r != nil { // a function that is not there
			lib, err = nil, fmt.Errorf("%v", r)
		}
	}()
	core, err := purego.Dlopen("libflite.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"libflite_usenglish.so.1", "libflite_cmulex.so.1"} {
		if _, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL); err != nil {
			return nil, err
		}
	}
	lib = &library{free: make(chan struct{}, 1), voices: map[string]*voice{},
		streamingName: []byte("streaming_info\x00"), stretchName: []byte("duration_stretch\x00")}
	lib.free <- struct{}{}
	var start func() int32
	for name, f := range map[string]any{
		"flite_init": &start, "new_utterance": &lib.newUtterance, "utt_set_input_text": &lib.setText, "delete_utterance": &lib.deleteU,
		"flite_do_synth": &lib.doSynth, "new_audio_streaming_info": &lib.newStreaming, "audio_streaming_info_val": &lib.streamingVal,
		"feat_set": &lib.featSet, "feat_set_float": &lib.featSetFloat,
	} {
		purego.RegisterLibFunc(f, core, name)
	}
	if lib.synth, err = purego.Dlsym(core, "utt_synth"); err != nil {
		return nil, err
	}
	start()
	lib.callback = purego.NewCallback(lib.block)
	return lib, nil
}

// block is called by the library with the samples from start on that are new.
func (l *library) block(w *wave, start, size, _ int32, _ uintptr) uintptr {
	if w == nil || w.data == nil || start < 0 || size < 0 || start+size > w.samples || w.channels != 1 {
		return halt
	}
	if !l.current.take(int(w.rate), unsafe.Slice(w.data, int(w.samples))[start:start+size]) {
		return halt
	}
	return goOn
}

// take waits until nobody speaks.
func (l *library) take(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-l.free:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *library) release() { l.free <- struct{}{} }

// voice returns a voice, registered if it was not.
func (l *library) voice(name string) (*voice, error) {
	if v := l.voices[name]; v != nil {
		return v, nil
	}
	lib, err := purego.Dlopen("libflite_"+voices[name]+".so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w; install the Debian package %s", err, Package)
	}
	symbol, err := purego.Dlsym(lib, "register_"+voices[name])
	if err != nil {
		return nil, err
	}
	var register func(dir uintptr) *voice
	purego.RegisterFunc(&register, symbol)
	v := register(0)
	if v == nil || v.features == nil {
		return nil, fmt.Errorf("the voice %s could not be registered", name)
	}
	l.voices[name] = v
	return v, nil
}

// speak makes the sound of text and hands it to u. The library is taken.
func (l *library) speak(u *utterance, name, text string, o Options) error {
	v, err := l.voice(name)
	if err != nil {
		return err
	}
	info := l.newStreaming()
	if info == nil {
		return errNotSpoken
	}
	info.minBuffer, info.callback = int32(o.Block), l.callback
	// The value owns info, and the voice the value, until the next one takes its place.
	l.featSet(v.features, &l.streamingName[0], l.streamingVal(info))
	l.featSetFloat(v.features, &l.stretchName[0], float32(o.Stretch))
	l.current = u
	spoken := l.newUtterance()
	l.setText(spoken, text)
	spoken = l.doSynth(spoken, v, l.synth) // it deletes what it fails on
	l.current = nil
	if spoken == nil {
		return errNotSpoken
	}
	l.deleteU(spoken)
	return nil
}
