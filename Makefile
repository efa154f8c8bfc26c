# firstsound: `make run` shows the main job, `make test` proves that all of it works.

GO    ?= go
# A count, not a time: a fuzz target that runs into its time limit can fail with
# "context deadline exceeded".
FUZZ  ?= 300x
BENCH ?= 1x
export CGO_ENABLED ?= 0

.PHONY: packages sdks rooms race-all program program-and-fuzz help run run-local call truth build test setup vet short-fuzz fuzz short-bench bench soak corpus docs golden

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

run: ## the main job, on the embedded recordings: no network, no key
	$(GO) run ./cmd/firstsound run

build: ## one static binary, ./firstsound
	$(GO) build -trimpath -o firstsound ./cmd/firstsound

test: setup vet rooms program-and-fuzz short-bench ## everything: installs what the tests need, then runs them all

# What the tests use beyond Go: a C compiler for the race detector, SimPy to
# compare the model of a server with, httpx to compare the streaming client
# with, and the engines that speak, recognize and made the recordings; a browser
# that calls, where there is one. The official SDKs, which the mocks are held
# against, are npm packages; so is Silero.
PACKAGES = gcc libc6-dev flite libflite1 espeak-ng libpocketsphinx3 pocketsphinx-en-us python3-simpy python3-httpx
SDKS     = cmd/firstsound/testdata/sdk asr/asrmock/testdata/sdk tts/ttsmock/testdata/sdk
SUDO    := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

setup: packages sdks ## install what the tests need (Debian packages, npm), if it is missing

packages:
	@missing=""; for p in $(PACKAGES); do \
	  dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	command -v node >/dev/null || missing="$$missing nodejs"; \
	command -v npm >/dev/null || missing="$$missing npm"; \
	if [ -n "$$missing" ]; then echo "installing$$missing"; \
	  $(SUDO) apt-get -qq update && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get -qq -y --no-install-recommends install $$missing >/dev/null; fi
	@command -v chromium-headless-shell >/dev/null || { echo "installing chromium-headless-shell"; \
	  $(SUDO) apt-get -qq update && DEBIAN_FRONTEND=noninteractive $(SUDO) apt-get -qq -y --no-install-recommends install chromium-headless-shell >/dev/null; } || \
	  echo "the tests in a browser will be skipped"

sdks:
	@for sdk in $(SDKS); do \
	  if [ ! -d $$sdk/node_modules ] || [ $$sdk/package-lock.json -nt $$sdk/node_modules ]; then \
	    echo "installing the SDKs in $$sdk"; npm ci --prefix $$sdk --no-audit --no-fund --silent && touch $$sdk/node_modules || echo "the tests with the SDKs of $$sdk will be skipped"; fi; done
	@sh audio/vad/silero/fetch.sh || echo "the tests of Silero will be skipped"

vet:
	$(GO) vet ./...
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "gofmt these: $$out"; exit 1; fi

# The program itself, end to end, takes ten minutes and 4 GB under the race detector
# (make race-all): here it is tested without, all rooms below it with.
rooms: ## all packages but the program, under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 30m $$($(GO) list ./... | grep -v '/cmd/firstsound$$')

program: ## the program, end to end
	$(GO) test -timeout 30m -parallel 4 ./cmd/firstsound

# The program's tests make calls in real time and mostly wait: the fuzz targets
# take the processors meanwhile, when the tests leave them.
program-and-fuzz:
	@nice -n 19 $(MAKE) --no-print-directory short-fuzz & fuzz=$$!; \
	  $(MAKE) --no-print-directory program; rc=$$?; wait $$fuzz && exit $$rc

race-all: ## all tests under the race detector
	CGO_ENABLED=1 $(GO) test -race -timeout 60m ./...

# Each fuzz target for a moment in `make test`; longer with `make fuzz FUZZ=10m`.
short-fuzz fuzz: ## every decoder against random input; FUZZ=10m for longer
	@grep -rE --include='*_test.go' --exclude-dir=node_modules '^func Fuzz' . | sed -E 's|/[^/]*:func (Fuzz[A-Za-z0-9_]*).*| \1|' | sort -u | while read -r pkg f; do \
	  echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZ) -fuzzminimizetime 10x $$pkg </dev/null || exit 1; done

# Each benchmark once, those of a minute and more left out: they are to be run.
short-bench:
	@out=$$($(GO) test -run '^$$' -bench . -skip 'Streams|Hour|Turn1000' -benchtime $(BENCH) \
	  $$(grep -rlE --include='*_test.go' --exclude-dir=node_modules '^func Benchmark' . | xargs -n1 dirname | sort -u) 2>&1); rc=$$?; \
	  echo "$$out" | grep -E '^(Benchmark|FAIL|panic|---)'; exit $$rc

bench: ## the benchmarks, long enough to quote
	$(GO) test -run '^$$' -bench . -benchmem ./...

run-local: packages build ## a real chain on this machine, no key: pocketsphinx, a mock model, flite
	@./firstsound mock llm --listen 127.0.0.1:8010 --first 'lognormal(180ms, 0.2)' --between 15ms --tokens 40 >/dev/null & p=$$!; \
	  sleep 1; ./firstsound run cmd/firstsound/local-chain.yaml; rc=$$?; kill $$p; exit $$rc

call: build ## an agent and a caller over WebRTC, on this machine
	@./firstsound serve --listen 127.0.0.1:8090 >/dev/null & p=$$!; \
	  sleep 1; ./firstsound call http://127.0.0.1:8090 --turns 2; rc=$$?; kill $$p; exit $$rc

truth: ## what is measured against what is known: language models (and a plain httpx reader), speech to speech, calls at the ear; half an hour on a machine that is left alone
	FIRSTSOUND_TRUTH=1 $(GO) test -run TruthLong -count 1 -timeout 60m -v ./llm/llmmock/truthtest
	FIRSTSOUND_TRUTH=1 $(GO) test -run TestTruth -count 1 -timeout 30m -v ./audio/realtime/s2sbench
	FIRSTSOUND_TRUTH=1 $(GO) test -run TestTruthAtTheEar -count 1 -timeout 30m -v ./cmd/firstsound

soak: ## a million turns, half an hour of calls, ten minutes of 200 streams, every diagnosis over many seeds: an hour
	FIRSTSOUND_SOAK=1 $(GO) test -run Soak -count 1 -timeout 120m -v ./cmd/firstsound ./llm/diagnosis

corpus: ## make the synthetic recordings again
	sh audio/corpus/make.sh

docs golden: ## write the generated parts of docs/ and the golden files anew
	$(GO) test ./... -update
