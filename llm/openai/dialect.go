package openai

import (
	"fmt"
	"slices"
	"strings"

	"firstsound/llm/wire"
)

// A Dialect is how one service or server differs from OpenAI's own in what it
// wants to be asked. What the answers differ in is read for all of them alike.
type Dialect struct {
	Name  string
	Hosts []string // of the service; a suffix, if it begins with a dot; empty: none in particular
	URL   string   // of the API when nothing else is said, without /chat/completions; empty: it has to be said
	Path  string   // of the API on a host that is given without a path
	Env   string   // the environment variable in which its users keep the key

	KeyHeader string // the header with the key; empty: Authorization, as a Bearer
	MaxTokens string // the field that limits the output; empty: max_tokens
	ID        string // the field that takes the request's ID, where X-Request-Id is not read; empty: none

	// Extra are fields of every request, and StreamExtra fields of its
	// stream_options.
	Extra, StreamExtra map[string]any

	// Think and NoThink are the fields that turn a hybrid model's reasoning on
	// and off; nil: there is no way that all its models know.
	Think, NoThink map[string]any
}

// The ways to turn reasoning on and off.
func enableThinking(on bool) map[string]any { return map[string]any{"enable_thinking": on} }
func templateThinking(on bool) map[string]any {
	return map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": on}}
}
func typedThinking(how string) map[string]any {
	return map[string]any{"thinking": map[string]any{"type": how}}
}

// Dialects returns all dialects, the general one last.
func Dialects() []Dialect {
	return []Dialect{
		{Name: "openai", Hosts: []string{"api.openai.com"}, URL: "https://api.openai.com/v1", Path: "/v1", Env: "OPENAI_API_KEY", MaxTokens: "max_completion_tokens"},
		{Name: "azure", Hosts: []string{".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com"}, Path: "/openai/v1", Env: "AZURE_OPENAI_API_KEY", KeyHeader: "Api-Key", MaxTokens: "max_completion_tokens"},
		{Name: "vllm", URL: "http://127.0.0.1:8000/v1", Path: "/v1", Env: "VLLM_API_KEY",
			Extra:       map[string]any{"include_metrics": true}, // told if the server runs with --enable-per-request-metrics
			StreamExtra: map[string]any{"continuous_usage_stats": true},
			Think:       templateThinking(true), NoThink: templateThinking(false)},
		{Name: "sglang", URL: "http://127.0.0.1:30000/v1", Path: "/v1", Env: "SGLANG_API_KEY", ID: "rid", Think: templateThinking(true), NoThink: templateThinking(false)},
		{Name: "ollama", URL: "http://127.0.0.1:11434/v1", Path: "/v1", Env: "OLLAMA_API_KEY",
			Think: map[string]any{"reasoning_effort": "medium"}, NoThink: map[string]any{"reasoning_effort": "none"}},
		{Name: "llamacpp", URL: "http://127.0.0.1:8080/v1", Path: "/v1", Env: "LLAMA_API_KEY",
			Extra: map[string]any{"return_progress": true}, Think: templateThinking(true), NoThink: templateThinking(false)},
		{Name: "deepseek", Hosts: []string{"api.deepseek.com"}, URL: "https://api.deepseek.com", Env: "DEEPSEEK_API_KEY",
			Think: typedThinking("enabled"), NoThink: typedThinking("disabled")},
		{Name: "dashscope", Hosts: []string{"dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com", "dashscope-us.aliyuncs.com"}, URL: "https://dashscope.aliyuncs.com/compatible-mode/v1", Path: "/compatible-mode/v1", Env: "DASHSCOPE_API_KEY",
			Think: enableThinking(true), NoThink: enableThinking(false)},
		{Name: "groq", Hosts: []string{"api.groq.com"}, URL: "https://api.groq.com/openai/v1", Path: "/openai/v1", Env: "GROQ_API_KEY", MaxTokens: "max_completion_tokens",
			Think: map[string]any{"reasoning_effort": "default"}, NoThink: map[string]any{"reasoning_effort": "none"}},
		{Name: "openrouter", Hosts: []string{"openrouter.ai"}, URL: "https://openrouter.ai/api/v1", Path: "/api/v1", Env: "OPENROUTER_API_KEY",
			Think: map[string]any{"reasoning": map[string]any{"enabled": true}}, NoThink: map[string]any{"reasoning": map[string]any{"enabled": false}}},
		{Name: "moonshot", Hosts: []string{"api.moonshot.cn", "api.moonshot.ai"}, URL: "https://api.moonshot.cn/v1", Path: "/v1", Env: "MOONSHOT_API_KEY",
			Think: typedThinking("enabled"), NoThink: typedThinking("disabled")},
		{Name: "doubao", Hosts: []string{".volces.com"}, URL: "https://ark.cn-beijing.volces.com/api/v3", Path: "/api/v3", Env: "ARK_API_KEY",
			Think: typedThinking("enabled"), NoThink: typedThinking("disabled")},
		{Name: "zhipu", Hosts: []string{"open.bigmodel.cn", "api.z.ai"}, URL: "https://open.bigmodel.cn/api/paas/v4", Path: "/api/paas/v4", Env: "ZHIPUAI_API_KEY",
			Think: typedThinking("enabled"), NoThink: typedThinking("disabled")},
		{Name: "generic", Path: "/v1", Env: "OPENAI_API_KEY"},
	}
}

// Names returns the names of all dialects.
func Names() []string {
	var names []string
	for _, d := range Dialects() {
		names = append(names, d.Name)
	}
	return names
}

// Find returns the dialect with a name.
func Find(name string) (Dialect, error) {
	for _, d := range Dialects() {
		if d.Name == name {
			return d, nil
		}
	}
	return Dialect{}, fmt.Errorf("llm: openai: there is no dialect %q; there are %s", name, strings.Join(Names(), ", "))
}

// Detect returns the dialect of the service at an address, by its host, and for
// Ollama by its port; the general one for any other.
func Detect(address string) Dialect {
	all := Dialects()
	general := all[len(all)-1]
	u, err := wire.Address(address)
	if err != nil {
		return general
	}
	host := strings.ToLower(u.Hostname())
	for _, d := range all {
		if slices.ContainsFunc(d.Hosts, func(h string) bool { return host == h || h[0] == '.' && strings.HasSuffix(host, h) }) {
			return d
		}
		if d.Name == "ollama" && u.Port() == "11434" {
			return d
		}
	}
	return general
}

// azureVersion is the last version of Azure's dated API that is generally
// available; its newer API has none.
const azureVersion = "2024-10-21"

// endpoint returns where to post: address may be a host, the base of an API, or
// the whole.
func (d Dialect) endpoint(address string) (string, error) {
	if address == "" {
		if d.URL == "" {
			return "", fmt.Errorf("llm: openai: the dialect %s needs an address", d.Name)
		}
		address = d.URL
	}
	u, err := wire.Address(address)
	if err != nil {
		return "", fmt.Errorf("llm: openai: %w", err)
	}
	path := strings.TrimRight(u.Path, "/")
	if path == "" {
		path = d.Path
	}
	if !strings.HasSuffix(path, "/chat/completions") {
		path += "/chat/completions"
	}
	u.Path, u.RawPath, u.Fragment = path, "", ""
	if strings.Contains(path, "/openai/deployments/") && !u.Query().Has("api-version") {
		q := u.Query()
		q.Set("api-version", azureVersion)
		u.RawQuery = q.Encode()
	}
	return u.String(), nil
}
