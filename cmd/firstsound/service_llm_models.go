package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"firstsound/clocks"
	"firstsound/clocks/exchange"
	"firstsound/clocks/failure"
	"firstsound/llm"
	"firstsound/llm/bench"
	"firstsound/llm/wire"
)

// The bounds of the list of models.
const (
	maxModels     = 4 << 20
	modelsTimeout = 10 * time.Second
)

// chooseModel takes the first model that the service lists, if none was named.
func (s *service) chooseModel(ctx context.Context, clock clocks.Clock) error {
	if s.model != "" {
		return nil
	}
	list := *s.at
	switch path := strings.TrimRight(list.Path, "/"); {
	case strings.HasSuffix(path, "/chat/completions"):
		list.Path = strings.TrimSuffix(path, "/chat/completions") + "/models"
	case strings.HasSuffix(path, "/messages"):
		list.Path = strings.TrimSuffix(path, "/messages") + "/models"
	case strings.HasSuffix(path, "/api/chat"):
		list.Path = strings.TrimSuffix(path, "/chat") + "/tags"
	default:
		return usagef("name the model: --model NAME; there is no list of models beside %s", bench.PublicURL(s.at))
	}
	ctx, cancel := clocks.WithTimeout(ctx, clock, modelsTimeout, fmt.Errorf("no answer within %v", modelsTimeout))
	defer cancel()
	name, err := s.firstModel(ctx, clock, &list)
	if failure.Of(err) == failure.Unreachable {
		return fmt.Errorf("nothing answers at %s: %s; start the service first, or try firstsound mock llm", bench.PublicURL(s.at), s.clean(err.Error()))
	}
	if err != nil {
		return fmt.Errorf("no --model was given, and there is no list of models at %s: %s", bench.PublicURL(&list), s.clean(err.Error()))
	}
	s.model, s.modelHow = name, "the first of "+bench.PublicURL(&list)
	return nil
}

// firstModel asks for the list of models.
func (s *service) firstModel(ctx context.Context, clock clocks.Clock, list *url.URL) (string, error) {
	like, err := s.protocol.Request(ctx, llm.Request{Params: llm.Params{Model: "none"}, Messages: []llm.Message{{Role: llm.User, Content: "?"}}})
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, list.String(), nil)
	if err != nil {
		return "", errors.New("its URL is none") // the error would repeat it
	}
	r.Header = like.Header.Clone() // with the key
	r.Header.Del("Content-Type")
	r.Header.Set("Accept", "application/json")
	client := exchange.New(clock, s.exchange)
	defer client.Close()
	x, err := client.Do(r.Context(), r)
	if err != nil {
		return "", wire.Explain(err)
	}
	defer x.Close()
	var body []byte
	for {
		piece, err := x.Next()
		if body = append(body, piece.Data...); err == io.EOF {
			break
		}
		if err != nil {
			return "", err
		}
		if len(body) > maxModels {
			return "", fmt.Errorf("the list is longer than %d MB", maxModels>>20)
		}
	}
	if to, err := list.Parse(x.Header.Get("Location")); err == nil && x.Status/100 == 3 {
		return "", fmt.Errorf("HTTP %d: it redirects to %s; give the service there as the URL", x.Status, bench.PublicURL(to))
	}
	if x.Status != http.StatusOK {
		return "", fmt.Errorf("HTTP %d: %s", x.Status, wire.Fault(body))
	}
	return parseModels(body)
}

// parseModels returns the first name in a list of models.
func parseModels(body []byte) (string, error) {
	var models struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if err := json.Unmarshal(body, &models); err != nil {
		return "", failure.JSON("the list of models", body, err)
	}
	switch {
	case len(models.Data) > 0 && models.Data[0].ID != "":
		return models.Data[0].ID, nil
	case len(models.Models) > 0 && models.Models[0].Name != "":
		return models.Models[0].Name, nil
	}
	return "", errors.New("the list is empty")
}
