//go:build (linux || darwin) && (amd64 || arm64)

package silero

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// The places of functions in struct OrtApi. Those up to 101 are the first
// version of the interface, which cannot change (the assertions at the end of
// onnxruntime_c_api.cc say so).
const (
	getErrorMessage                 = 2
	createEnv                       = 3
	createSessionFromArray          = 8
	runSession                      = 9
	createSessionOptions            = 10
	setIntraOpThreads               = 24
	setInterOpThreads               = 25
	sessionGetInputCount            = 30
	sessionGetOutputCount           = 31
	createTensorAsOrtValue          = 48
	getTensorMutableData            = 51
	getAllocatorWithDefaults        = 78
	releaseEnv                      = 92
	releaseStatus                   = 93
	releaseSession                  = 95
	releaseValue                    = 96
	releaseSessionOptions           = 100
	functions                       = 101
	apiVersion               uint32 = 1
)

// Types of ONNX tensors.
const (
	typeFloat = 1
	typeInt64 = 7
)

// severityError keeps ONNX Runtime from writing anything but errors to the
// standard error.
const severityError = 3

// An api holds the functions of ONNX Runtime that the network needs. Those that
// can fail return an OrtStatus*, 0 for none.
type api struct {
	errorMessage   func(status uintptr) string
	createEnv      func(severity int32, name string, env *uintptr) uintptr
	createOptions  func(options *uintptr) uintptr
	setIntra       func(options uintptr, threads int32) uintptr
	setInter       func(options uintptr, threads int32) uintptr
	createSession  func(env uintptr, model *byte, length uintptr, options uintptr, session *uintptr) uintptr
	inputs         func(session uintptr, n *uintptr) uintptr
	outputs        func(session uintptr, n *uintptr) uintptr
	allocator      func(allocator *uintptr) uintptr
	createTensor   func(allocator uintptr, shape *int64, dims uintptr, kind int32, value *uintptr) uintptr
	data           func(value uintptr, data *unsafe.Pointer) uintptr
	run            func(session, options uintptr, inNames **byte, in *uintptr, nIn uintptr, outNames **byte, nOut uintptr, out *uintptr) uintptr
	releaseEnv     func(uintptr)
	releaseStatus  func(uintptr)
	releaseSession func(uintptr)
	releaseValue   func(uintptr)
	releaseOptions func(uintptr)
}

// libraries are those that were opened, by their files: they cannot be closed
// again.
var libraries = struct {
	sync.Mutex
	open map[string]*api
}{open: map[string]*api{}}

// maxModel bounds the network's file, which has 2 MB.
const maxModel = 64 << 20

// openLibrary opens ONNX Runtime, once for each file.
func openLibrary(name string) (*api, error) {
	libraries.Lock()
	defer libraries.Unlock()
	if a, ok := libraries.open[name]; ok {
		return a, nil
	}
	handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("library: %s cannot be opened (%w)", name, err)
	}
	symbol, err := purego.Dlsym(handle, "OrtGetApiBase")
	if err != nil {
		return nil, fmt.Errorf("library: %s is not ONNX Runtime (%w)", name, err)
	}
	var base func() *struct{ getAPI, version uintptr }
	purego.RegisterFunc(&base, symbol)
	var getAPI func(version uint32) *[functions]uintptr
	purego.RegisterFunc(&getAPI, base().getAPI)
	table := getAPI(apiVersion)
	if table == nil {
		return nil, fmt.Errorf("library: %s has no version %d of the C interface", name, apiVersion)
	}
	a := &api{}
	for place, to := range map[int]any{
		getErrorMessage: &a.errorMessage, createEnv: &a.createEnv, createSessionOptions: &a.createOptions,
		setIntraOpThreads: &a.setIntra, setInterOpThreads: &a.setInter, createSessionFromArray: &a.createSession,
		sessionGetInputCount: &a.inputs, sessionGetOutputCount: &a.outputs, getAllocatorWithDefaults: &a.allocator,
		createTensorAsOrtValue: &a.createTensor, getTensorMutableData: &a.data, runSession: &a.run,
		releaseEnv: &a.releaseEnv, releaseStatus: &a.releaseStatus, releaseSession: &a.releaseSession,
		releaseValue: &a.releaseValue, releaseSessionOptions: &a.releaseOptions,
	} {
		purego.RegisterFunc(to, table[place])
	}
	libraries.open[name] = a
	return a, nil
}

// check makes an error of a status, and gives it back.
func (a *api) check(what string, status uintptr) error {
	if status == 0 {
		return nil
	}
	defer a.releaseStatus(status)
	return fmt.Errorf("ONNX Runtime: %s: %s", what, a.errorMessage(status))
}

// A session is a loaded network. Several streams may run it at once.
type session struct {
	api       *api
	env       uintptr
	session   uintptr
	allocator uintptr
	ins, outs []*byte // names

	pin runtime.Pinner // of the names
}

// load loads the network in the file model, to be computed by one thread.
func load(model, library string) (s *session, err error) {
	a, err := openLibrary(library)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(model)
	if err == nil && info.Size() > maxModel {
		err = fmt.Errorf("model: %s has %d bytes: it is not Silero's", model, info.Size())
	}
	if err != nil {
		return nil, err
	}
	bytes, err := os.ReadFile(model)
	if err != nil {
		return nil, err
	}
	if len(bytes) == 0 {
		return nil, fmt.Errorf("model: %s is empty", model)
	}
	s = &session{api: a}
	s.ins, s.outs = s.names("input", "state", "sr"), s.names("output", "stateN")
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	var options uintptr
	var inputs, outputs uintptr
	steps := []struct {
		what string
		do   func() uintptr
	}{
		{"environment", func() uintptr { return a.createEnv(severityError, "firstsound", &s.env) }},
		{"options", func() uintptr { return a.createOptions(&options) }},
		{"threads", func() uintptr { return a.setIntra(options, 1) }},
		{"threads", func() uintptr { return a.setInter(options, 1) }},
		{"model: " + model, func() uintptr {
			return a.createSession(s.env, &bytes[0], uintptr(len(bytes)), options, &s.session)
		}},
		{"inputs", func() uintptr { return a.inputs(s.session, &inputs) }},
		{"outputs", func() uintptr { return a.outputs(s.session, &outputs) }},
		{"memory", func() uintptr { return a.allocator(&s.allocator) }},
	}
	for _, step := range steps {
		if err = a.check(step.what, step.do()); err != nil {
			break
		}
	}
	if options != 0 {
		a.releaseOptions(options)
	}
	if err == nil && (int(inputs) != len(s.ins) || int(outputs) != len(s.outs)) {
		err = fmt.Errorf("model: %s takes %d tensors and gives %d: Silero's takes 3 and gives 2", model, inputs, outputs)
	}
	return s, err
}

// names returns names as C has them, at places that stay.
func (s *session) names(names ...string) []*byte {
	var all []*byte
	for _, name := range names {
		text := append([]byte(name), 0)
		s.pin.Pin(&text[0])
		all = append(all, &text[0])
	}
	return all
}

func (s *session) close() {
	if s.session != 0 {
		s.api.releaseSession(s.session)
	}
	if s.env != 0 {
		s.api.releaseEnv(s.env)
	}
	s.session, s.env = 0, 0
	s.pin.Unpin()
}

// tensors are what a stream hands over and gets back. Their memory is ONNX
// Runtime's, so that it stays where it is for as long as they live.
type tensors struct {
	s           *session
	values      []uintptr
	in, out     []uintptr
	input       []float32
	state, next []float32
	output      []float32
}

func (s *session) open() (*tensors, error) {
	t := &tensors{s: s}
	var sr []int64
	var err error
	t.input, err = tensor[float32](t, err, typeFloat, 1, context+frame)
	t.state, err = tensor[float32](t, err, typeFloat, 2, 1, 128)
	sr, err = tensor[int64](t, err, typeInt64)
	t.output, err = tensor[float32](t, err, typeFloat, 1, 1)
	t.next, err = tensor[float32](t, err, typeFloat, 2, 1, 128)
	if err != nil {
		t.close()
		return nil, err
	}
	clear(t.input)
	clear(t.state)
	sr[0] = rate
	t.in, t.out = t.values[:3], t.values[3:]
	return t, nil
}

// tensor adds a tensor to t and returns its numbers, unless err has come before.
func tensor[T float32 | int64](t *tensors, err error, kind int32, shape ...int64) ([]T, error) {
	if err != nil {
		return nil, err
	}
	a := t.s.api
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	var value uintptr
	if err := a.check("tensor", a.createTensor(t.s.allocator, unsafe.SliceData(shape), uintptr(len(shape)), kind, &value)); err != nil {
		return nil, err
	}
	t.values = append(t.values, value)
	var data unsafe.Pointer
	if err := a.check("tensor", a.data(value, &data)); err != nil {
		return nil, err
	}
	if data == nil {
		return nil, errors.New("ONNX Runtime: a tensor has no memory")
	}
	return unsafe.Slice((*T)(data), n), nil
}

// run computes the outputs of the inputs.
func (t *tensors) run() error {
	s := t.s
	status := s.api.run(s.session, 0, &s.ins[0], &t.in[0], uintptr(len(t.in)), &s.outs[0], uintptr(len(t.out)), &t.out[0])
	return s.api.check("run", status)
}

func (t *tensors) close() {
	for _, v := range t.values {
		t.s.api.releaseValue(v)
	}
	t.values = nil
}
