module firstsound

go 1.26

require (
	github.com/DataDog/sketches-go v1.4.8
	github.com/go-audio/audio v1.0.0
	github.com/go-audio/wav v1.1.0
	github.com/montanaflynn/stats v0.14.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	go.yaml.in/yaml/v3 v3.0.6
)

require (
	github.com/go-audio/riff v1.0.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
