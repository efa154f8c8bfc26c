package serverside

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"firstsound/llm/record"
)

// A Role is what a metric of a server tells.
type Role string

// The roles. The first three are of a moment, the others are histograms.
const (
	RoleRunning Role = "running" // requests that are worked on
	RoleWaiting Role = "waiting" // requests in the queue
	RoleKVUsage Role = "kv_usage"
	RoleTTFT    Role = "ttft"
	RoleQueue   Role = "queue"
	RolePrefill Role = "prefill"
	RoleDecode  Role = "decode"
	RoleTotal   Role = "total"
	RoleITL     Role = "itl"
	RoleCounter Role = "counter" // tokens, requests and seconds since the server began
)

// metrics are the names that are kept. Sources: vllm/v1/metrics/loggers.py;
// sglang/srt/observability/metrics_collector.py; llama.cpp
// tools/server/server-context.cpp (handle_metrics); text-generation-inference
// router/src/server.rs.
var metrics = []struct {
	name string
	role Role
}{
	{"vllm:num_requests_running", RoleRunning}, {"vllm:num_requests_waiting", RoleWaiting},
	{"vllm:kv_cache_usage_perc", RoleKVUsage}, {"vllm:gpu_cache_usage_perc", RoleKVUsage}, // the second in older versions
	{"vllm:time_to_first_token_seconds", RoleTTFT}, {"vllm:request_queue_time_seconds", RoleQueue},
	{"vllm:request_prefill_time_seconds", RolePrefill}, {"vllm:request_decode_time_seconds", RoleDecode},
	{"vllm:e2e_request_latency_seconds", RoleTotal},
	{"vllm:inter_token_latency_seconds", RoleITL}, {"vllm:time_per_output_token_seconds", RoleITL},
	{"vllm:prompt_tokens_total", RoleCounter}, {"vllm:generation_tokens_total", RoleCounter}, {"vllm:num_preemptions_total", RoleCounter},
	{"vllm:prefix_cache_queries_total", RoleCounter}, {"vllm:prefix_cache_hits_total", RoleCounter},

	{"sglang:num_running_reqs", RoleRunning}, {"sglang:num_queue_reqs", RoleWaiting}, {"sglang:token_usage", RoleKVUsage},
	{"sglang:time_to_first_token_seconds", RoleTTFT}, {"sglang:queue_time_seconds", RoleQueue},
	{"sglang:e2e_request_latency_seconds", RoleTotal}, {"sglang:inter_token_latency_seconds", RoleITL},
	{"sglang:prompt_tokens_total", RoleCounter}, {"sglang:generation_tokens_total", RoleCounter}, {"sglang:cached_tokens_total", RoleCounter},

	{"llamacpp:requests_processing", RoleRunning}, {"llamacpp:requests_deferred", RoleWaiting}, {"llamacpp:kv_cache_usage_ratio", RoleKVUsage},
	{"llamacpp:prompt_tokens_total", RoleCounter}, {"llamacpp:prompt_seconds_total", RoleCounter},
	{"llamacpp:tokens_predicted_total", RoleCounter}, {"llamacpp:tokens_predicted_seconds_total", RoleCounter},

	{"tgi_batch_current_size", RoleRunning}, {"tgi_queue_size", RoleWaiting},
	{"tgi_request_queue_duration", RoleQueue}, {"tgi_request_duration", RoleTotal},
	{"tgi_request_mean_time_per_token_duration", RoleITL}, {"tgi_request_count", RoleCounter},
}

// maxMetrics bounds the answer of a server's monitoring.
const maxMetrics = 8 << 20

// ParseMetrics reads the Prometheus text format and returns the values that say
// something of the load and the latency of a known server: gauges and counters
// by their names, histograms as name_sum (in seconds) and name_count. Values of
// several engines or models are added up; of shares the largest counts.
func ParseMetrics(r io.Reader) (map[string]float64, error) {
	body, err := io.ReadAll(io.LimitReader(r, maxMetrics+1))
	if err != nil {
		return nil, fmt.Errorf("server metrics: %w", err)
	}
	if len(body) > maxMetrics {
		return nil, fmt.Errorf("server metrics: longer than %d MB", maxMetrics>>20)
	}
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(string(body)))
	if err != nil {
		return nil, fmt.Errorf("server metrics: %w", err)
	}
	out := map[string]float64{}
	for _, m := range metrics {
		for _, v := range families[m.name].GetMetric() {
			if h := v.GetHistogram(); h != nil {
				n := float64(h.GetSampleCount())
				if n == 0 {
					n = h.GetSampleCountFloat()
				}
				put(out, m.name+"_count", n, false)
				put(out, m.name+"_sum", h.GetSampleSum(), false)
				continue
			}
			put(out, m.name, plainValue(v), m.role == RoleKVUsage)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("server metrics: none of vLLM's, SGLang's, llama.cpp's or TGI's in it (SGLang has them with --enable-metrics, llama.cpp with --metrics)")
	}
	return out, nil
}

func plainValue(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Untyped != nil:
		return m.Untyped.GetValue()
	}
	return math.NaN()
}

// put leaves out what JSON cannot say.
func put(out map[string]float64, name string, v float64, largest bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	if was, ok := out[name]; ok && largest {
		v = max(v, was)
	} else if ok {
		v += was
	}
	out[name] = v
}

// A Mean is what a histogram of the server says of a run: its sum's growth by
// its count's.
type Mean struct {
	Name  string         `json:"name"`
	Role  Role           `json:"role"`
	Count int64          `json:"count"` // requests; of RoleITL: gaps
	Mean  *time.Duration `json:"mean_ns,omitempty"`
	Note  string         `json:"note,omitempty"` // why there is no mean, or whose requests are in it too
}

// Means are the server's own means over a run, from its first to its last sample.
// ours is how many requests this client sent in between: if the server counted
// another number, the mean is of others' requests too, and its Note says so.
func Means(samples []record.Sample, ours int) []Mean {
	var out []Mean
	for _, m := range metrics {
		if m.role == RoleRunning || m.role == RoleWaiting || m.role == RoleKVUsage || m.role == RoleCounter {
			continue
		}
		var first, last *record.Sample
		restarted := false
		for i := range samples {
			s := &samples[i]
			n, ok := s.Values[m.name+"_count"]
			if _, sum := s.Values[m.name+"_sum"]; !ok || !sum {
				continue
			}
			if first == nil {
				first = s
			}
			restarted = restarted || last != nil && n < last.Values[m.name+"_count"]
			last = s
		}
		if first == nil {
			continue
		}
		mean := Mean{Name: m.name, Role: m.role}
		if restarted {
			mean.Note = "the count went back: the server was started again"
			out = append(out, mean)
			continue
		}
		n := last.Values[m.name+"_count"] - first.Values[m.name+"_count"]
		sum := last.Values[m.name+"_sum"] - first.Values[m.name+"_sum"]
		mean.Count = int64(math.Round(n))
		switch {
		case n == 0:
			mean.Note = "no requests between the first and the last sample"
		case sum < 0 || sum/n > math.MaxInt64/2e9:
			mean.Note = fmt.Sprintf("the sum grew by %g s", sum)
		default:
			d := time.Duration(math.Round(sum / n * 1e9))
			mean.Mean = &d
		}
		if m.role != RoleITL && mean.Count > 0 && mean.Count != int64(ours) {
			mean.Note = fmt.Sprintf("of %d requests where %d were ours: other clients used the server, or some had not ended when it was asked", mean.Count, ours)
		}
		out = append(out, mean)
	}
	return out
}

// A Peak is how a gauge of the server went over a run.
type Peak struct {
	Name    string        `json:"name"`
	Role    Role          `json:"role"`
	Samples int           `json:"samples"`
	Mean    float64       `json:"mean"`
	Max     float64       `json:"max"`
	MaxAt   time.Duration `json:"max_at_ns"`
}

// Peaks are the gauges of the samples: running and waiting requests, and how full
// the cache was.
func Peaks(samples []record.Sample) []Peak {
	var out []Peak
	for _, m := range metrics {
		if m.role != RoleRunning && m.role != RoleWaiting && m.role != RoleKVUsage {
			continue
		}
		p := Peak{Name: m.name, Role: m.role}
		for _, s := range samples {
			v, ok := s.Values[m.name]
			if !ok {
				continue
			}
			if p.Samples == 0 || v > p.Max {
				p.Max, p.MaxAt = v, s.At
			}
			p.Samples++
			p.Mean += (v - p.Mean) / float64(p.Samples)
		}
		if p.Samples > 0 {
			out = append(out, p)
		}
	}
	return out
}
