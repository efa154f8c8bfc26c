//go:build (linux || darwin) && (amd64 || arm64)

package pocketsphinx

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A library holds the functions of libpocketsphinx and libsphinxbase, version
// 0.8+5prealpha, as their headers declare them.
type library struct {
	args       func() uintptr                                                        // ps_args: the arguments there are
	parse      func(in, args uintptr, argc int32, argv **byte, strict int32) uintptr // cmd_ln_parse_r
	freeConfig func(config uintptr) int32                                            // cmd_ln_free_r
	init       func(config uintptr) uintptr                                          // ps_init; it keeps the config
	free       func(ps uintptr) int32
	setJSGF    func(ps uintptr, name, grammar string) int32
	setSearch  func(ps uintptr, name string) int32
	startUtt   func(ps uintptr) int32
	process    func(ps uintptr, data *int16, n uintptr, noSearch, full int32) int32
	endUtt     func(ps uintptr) int32
	hyp        func(ps uintptr, score *int32) string
	setLog     func(file uintptr) // err_set_logfp
}

// open opens the libraries, once: they cannot be closed again.
var open = sync.OnceValues(func() (*library, error) {
	names := map[string]string{"base": "libsphinxbase.so.3", "sphinx": "libpocketsphinx.so.3"}
	if runtime.GOOS == "darwin" {
		names = map[string]string{"base": "libsphinxbase.3.dylib", "sphinx": "libpocketsphinx.3.dylib"}
	}
	handles := map[string]uintptr{}
	for _, part := range []string{"base", "sphinx"} {
		h, err := purego.Dlopen(names[part], purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be opened: install Debian's packages libpocketsphinx3 and pocketsphinx-en-us (%w)", names[part], err)
		}
		handles[part] = h
	}
	l := &library{}
	for _, f := range []struct {
		part, name string
		to         any
	}{
		{"base", "cmd_ln_parse_r", &l.parse}, {"base", "cmd_ln_free_r", &l.freeConfig}, {"base", "err_set_logfp", &l.setLog},
		{"sphinx", "ps_args", &l.args}, {"sphinx", "ps_init", &l.init}, {"sphinx", "ps_free", &l.free},
		{"sphinx", "ps_set_jsgf_string", &l.setJSGF}, {"sphinx", "ps_set_search", &l.setSearch},
		{"sphinx", "ps_start_utt", &l.startUtt}, {"sphinx", "ps_process_raw", &l.process}, {"sphinx", "ps_end_utt", &l.endUtt},
		{"sphinx", "ps_get_hyp", &l.hyp},
	} {
		at, err := purego.Dlsym(handles[f.part], f.name)
		if err != nil {
			return nil, fmt.Errorf("%s has no %s: another version than 0.8+5prealpha? (%w)", names[f.part], f.name, err)
		}
		purego.RegisterFunc(f.to, at)
	}
	l.setLog(0) // else it writes pages about itself to the standard error
	return l, nil
})

// A decoder decodes one utterance.
type decoder struct {
	lib     *library
	ps      uintptr
	stopped atomic.Bool
}

// load makes a decoder with its arguments, and with a grammar if there is one.
func (l *library) load(args []string, grammar string) (*decoder, error) {
	argv := make([]*byte, 0, len(args)+1)
	var pin runtime.Pinner
	defer pin.Unpin()
	for _, a := range args {
		text := append([]byte(a), 0)
		pin.Pin(&text[0])
		argv = append(argv, &text[0])
	}
	argv = append(argv, nil)
	config := l.parse(0, l.args(), int32(len(args)), unsafe.SliceData(argv), 1)
	runtime.KeepAlive(argv)
	if config == 0 {
		return nil, fmt.Errorf("it does not take its arguments %q", args)
	}
	defer l.freeConfig(config)
	ps := l.init(config)
	if ps == 0 {
		return nil, fmt.Errorf("the model cannot be loaded with %q", args)
	}
	d := &decoder{lib: l, ps: ps}
	if grammar != "" && (l.setJSGF(ps, "grammar", grammar) != 0 || l.setSearch(ps, "grammar") != 0) {
		d.free()
		return nil, errors.New("grammar: it is no JSGF grammar of words in the dictionary")
	}
	return d, nil
}

func (d *decoder) start() error {
	if d.lib.startUtt(d.ps) != 0 {
		return errors.New("ps_start_utt failed")
	}
	return nil
}

// push decodes more sound, and returns the text so far.
func (d *decoder) push(pcm []int16) (string, error) {
	if d.stopped.Load() {
		return "", errStopped
	}
	if d.lib.process(d.ps, &pcm[0], uintptr(len(pcm)), 0, 0) < 0 {
		return "", errors.New("ps_process_raw failed")
	}
	return d.text(), nil
}

// end decodes the rest, and returns the whole text.
func (d *decoder) end() (string, error) {
	if d.lib.endUtt(d.ps) != 0 {
		return "", errors.New("ps_end_utt failed")
	}
	return d.text(), nil
}

func (d *decoder) text() string { return clean(d.lib.hyp(d.ps, nil)) }

var errStopped = errors.New("nobody listens any more")

// cancel makes push do nothing more.
func (d *decoder) cancel() { d.stopped.Store(true) }

// free ends the decoder.
func (d *decoder) free() { d.lib.free(d.ps) }
