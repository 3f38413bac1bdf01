package otlp

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Settings are the destination and the attributes of spans.
type Settings struct {
	Endpoint string            // full URL for traces; if empty, nothing is exported
	Headers  map[string]string // of each request; may contain secrets
	Timeout  time.Duration     // of one request
	Resource map[string]string // attributes of this program, including service.name
}

const defaultTimeout = 10 * time.Second

// FromEnv reads the standard variables with getenv. The error names the invalid variable, but not
// the value of a header.
func FromEnv(getenv func(string) string) (Settings, error) {
	s := Settings{Timeout: defaultTimeout, Resource: map[string]string{"service.name": "hubbub-bus"},
		Headers: map[string]string{}}
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") || getenv("OTEL_TRACES_EXPORTER") == "none" {
		return Settings{}, nil
	}
	either := func(name string) (string, string) {
		for _, n := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + name, "OTEL_EXPORTER_OTLP_" + name} {
			if v := getenv(n); v != "" {
				return n, v
			}
		}
		return "", ""
	}
	name, endpoint := either("ENDPOINT")
	if endpoint == "" {
		return Settings{}, nil
	}
	if name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
		endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces"
	}
	if u, err := url.Parse(endpoint); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return Settings{}, fmt.Errorf("%s is not an http or https URL", name)
	}
	s.Endpoint = endpoint
	if name, protocol := either("PROTOCOL"); protocol == "grpc" {
		return Settings{}, fmt.Errorf("%s is grpc: spans are sent over HTTP only (http/json); name the collector's "+
			"HTTP endpoint, usually port 4318", name)
	}
	name, headers := either("HEADERS")
	if err := pairs(headers, s.Headers); err != nil {
		return Settings{}, fmt.Errorf("%s must be name=value,name=value", name)
	}
	if name, ms := either("TIMEOUT"); ms != "" {
		n, err := strconv.Atoi(ms)
		if err != nil || n <= 0 {
			return Settings{}, fmt.Errorf("%s must be a number of milliseconds", name)
		}
		s.Timeout = time.Duration(n) * time.Millisecond
	}
	if err := pairs(getenv("OTEL_RESOURCE_ATTRIBUTES"), s.Resource); err != nil {
		return Settings{}, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES must be name=value,name=value")
	}
	if v := getenv("OTEL_SERVICE_NAME"); v != "" {
		s.Resource["service.name"] = v
	}
	return s, nil
}

// pairs parses name=value,name=value, with percent escapes in values, into a map.
func pairs(text string, into map[string]string) error {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return fmt.Errorf("not a pair")
		}
		into[name] = value
	}
	return nil
}
