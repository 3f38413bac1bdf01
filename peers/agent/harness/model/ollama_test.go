package model_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/model"

	"github.com/rs/zerolog"
)

// TestOllama runs the harness against a real local server, with two models that the test
// generates: one that calls a tool and answers with its result, and the same one without tools.
// `make test-models` builds the server; HUBBUB_OLLAMA is its program.
func TestOllama(t *testing.T) {
	program := os.Getenv("HUBBUB_OLLAMA")
	if program == "" {
		t.Skip("HUBBUB_OLLAMA is not set; run make test-models")
	}
	address := serveOllama(t, program)
	for name, c := range map[string]struct {
		template string
		answer   string
		calls    []string
		logs     bool
	}{
		"tools":    {toolTemplate, tinySays, []string{"chat.react"}, false},
		"no tools": {`{{ .System }} {{ .Prompt }}` + afterResult, tinySays, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			tinyModel(t, filepath.Join(folder, "tiny.gguf"))
			file := fmt.Sprintf("FROM ./tiny.gguf\nTEMPLATE \"\"\"%s\"\"\"\nPARAMETER temperature 0\n", c.template)
			if err := os.WriteFile(filepath.Join(folder, "Modelfile"), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			id := "tiny-" + strings.ReplaceAll(name, " ", "-")
			create := exec.CommandContext(t.Context(), program, "create", id, "-f", "Modelfile")
			create.Dir, create.Env = folder, append(os.Environ(), "OLLAMA_HOST="+address)
			if out, err := create.CombinedOutput(); err != nil {
				t.Fatalf("creating the model: %v\n%s", err, out)
			}
			var logged bytes.Buffer
			log := zerolog.New(&logged)
			h := model.OpenAI(&model.Options{BaseURL: "http://" + address + "/v1", Model: id, Log: &log})
			tools := &harnesstest.Tools{}
			out, err := h.Turn(t.Context(), turn("hello"), tools)
			if err != nil || strings.TrimSpace(out.FinalText) != c.answer || !slices.Equal(tools.Called(), c.calls) || out.Usage.InputTokens == 0 {
				t.Errorf("%+v, %v, calls %v", out, err, tools.Called())
			}
			if logs := strings.Contains(logged.String(), "takes no tools"); logs != c.logs {
				t.Errorf("told %s", logged.String())
			}
		})
	}
	h := model.OpenAI(&model.Options{BaseURL: "http://" + address + "/v1", Model: "missing"})
	if _, err := h.Turn(t.Context(), turn("hello"), nil); err == nil || !strings.Contains(err.Error(), "--model") {
		t.Errorf("a model that is not there: %v", err)
	}
	h = model.OpenAI(&model.Options{BaseURL: "http://" + address, Model: "missing"})
	if _, err := h.Turn(t.Context(), turn("hello"), nil); err == nil || !strings.Contains(err.Error(), "--base-url") {
		t.Errorf("a base URL without its version: %v", err)
	}
}

// serveOllama runs the server on a free port until the test ends.
func serveOllama(t *testing.T, program string) (address string) {
	t.Helper()
	address = bustest.FreeAddress(t)
	said := &outputWatcher{wanted: "Listening on", come: make(chan struct{})}
	serve := exec.CommandContext(t.Context(), program, "serve")
	serve.Env = append(os.Environ(), "OLLAMA_HOST="+address, "OLLAMA_MODELS="+t.TempDir(), "HOME="+t.TempDir())
	serve.Stdout, serve.Stderr = said, said
	serve.Cancel = func() error { return serve.Process.Signal(os.Interrupt) }
	serve.WaitDelay = 10 * time.Second
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if serve.Wait(); t.Failed() { //nolint:errcheck // it was interrupted
			t.Log(said.all.String())
		}
	})
	select {
	case <-said.come:
	case <-time.After(time.Minute):
		t.Fatal("Ollama did not start in a minute")
	}
	return address
}

// An outputWatcher stores the output of a program. come is closed once all wanted texts are in
// it. The output is written by one goroutine, and read after that has ended.
type outputWatcher struct {
	all    bytes.Buffer
	wanted string
	come   chan struct{}
}

// Write takes what a program says next.
func (w *outputWatcher) Write(p []byte) (int, error) {
	before := strings.Contains(w.all.String(), w.wanted)
	w.all.Write(p)
	if !before && strings.Contains(w.all.String(), w.wanted) {
		close(w.come)
	}
	return len(p), nil
}

// The last words that the tiny model reads, and its replies.
const (
	afterPrompt = "U"
	afterResult = "T"
	tinyCalls   = `<tool_call>{"name": "chat_react", "arguments": {"text": "seen"}}</tool_call>`
	tinySays    = "Hello from a tiny model."
)

// toolTemplate tells the server how its model is shown tools, and how it calls them.
const toolTemplate = `{{ range .Tools }}{{ . }}{{ end }}{{ range .Messages }}{{ .Content }}` +
	`{{ if .ToolCalls }}<tool_call>{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}{{ end }}</tool_call>{{ end }}` +
	`{{ if eq .Role "tool" }}` + afterResult + `{{ else }}` + afterPrompt + `{{ end }}{{ end }}`

// tinyModel writes a llama of one layer whose next token depends only on the last one. It says
// tinyCalls after afterPrompt, and tinySays after anything else.
func tinyModel(t *testing.T, path string) {
	t.Helper()
	tokens, kinds := tinyTokens()
	n := len(tokens)
	tensors := tinyTensors(tokens)
	const u32, i32, f32, text, list = 4, 5, 6, 8, 9 // types of GGUF
	g := &ggufWriter{t: t}
	g.file.WriteString("GGUF")
	g.put(uint32(3), uint64(len(tensors)), uint64(18)) // the last is the number of settings
	g.put("general.architecture", uint32(text), "llama")
	for key, value := range map[string]uint32{
		"general.file_type": 0, "llama.block_count": 1, "llama.context_length": 65536, "llama.embedding_length": tinyWidth, "llama.feed_forward_length": tinyHidden,
		"llama.attention.head_count": 2, "llama.attention.head_count_kv": 2, "llama.rope.dimension_count": tinyWidth / 2, "llama.vocab_size": uint32(n),
		"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": tinyEnd, "tokenizer.ggml.unknown_token_id": 0,
	} {
		g.put(key, uint32(u32), value)
	}
	g.put("llama.attention.layer_norm_rms_epsilon", uint32(f32), float32(1e-5))
	g.put("tokenizer.ggml.model", uint32(text), "llama")
	g.put("tokenizer.ggml.tokens", uint32(list), uint32(text), uint64(n))
	for _, s := range tokens {
		g.put(s)
	}
	g.put("tokenizer.ggml.token_type", uint32(list), uint32(i32), uint64(n), kinds)
	g.put("tokenizer.ggml.scores", uint32(list), uint32(f32), uint64(n), make([]float32, n))
	g.putTensors(tensors)
	if err := os.WriteFile(path, g.file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The sizes of a tiny model, and its special tokens.
const (
	tinyWidth, tinyHidden      = 32, 64
	tinyEnd, tinyCall, tinySay = 2, 259, 260
)

// tinyTokens returns the vocabulary of a tiny model and the kind of each token.
func tinyTokens() (tokens []string, kinds []int32) {
	tokens, kinds = []string{"<unk>", "<s>", "</s>"}, []int32{2, 3, 3}
	for b := range 256 {
		tokens, kinds = append(tokens, fmt.Sprintf("<0x%02X>", b)), append(kinds, 6)
	}
	return append(tokens, tinyCalls, tinySays, afterPrompt, afterResult), append(kinds, 1, 1, 1, 1)
}

// A tensor is a matrix of a model. Its values are zero if nil.
type tensor struct {
	name   string
	shape  []uint64
	values []float32
}

// tinyTensors returns the tensors of a tiny model. Only the embedding of a token, which is its
// class, decides on the next one.
func tinyTensors(tokens []string) []tensor {
	class := func(token int) int {
		switch {
		case token == tinyCall || token == tinySay:
			return 1
		case tokens[token] == afterPrompt:
			return 2
		}
		return 0
	}
	n := len(tokens)
	embedding, output := make([]float32, n*tinyWidth), make([]float32, n*tinyWidth)
	for token := range n {
		embedding[token*tinyWidth+class(token)] = 1
	}
	for c, token := range []int{tinySay, tinyEnd, tinyCall} {
		output[token*tinyWidth+c] = 10
	}
	ones := slices.Repeat([]float32{1}, tinyWidth)
	square := []uint64{tinyWidth, tinyWidth}
	return []tensor{
		{"token_embd.weight", []uint64{tinyWidth, uint64(n)}, embedding},
		{"output_norm.weight", []uint64{tinyWidth}, ones},
		{"output.weight", []uint64{tinyWidth, uint64(n)}, output},
		{"blk.0.attn_norm.weight", []uint64{tinyWidth}, ones},
		{"blk.0.attn_q.weight", square, nil},
		{"blk.0.attn_k.weight", square, nil},
		{"blk.0.attn_v.weight", square, nil},
		{"blk.0.attn_output.weight", square, nil},
		{"blk.0.ffn_norm.weight", []uint64{tinyWidth}, ones},
		{"blk.0.ffn_gate.weight", []uint64{tinyWidth, tinyHidden}, nil},
		{"blk.0.ffn_up.weight", []uint64{tinyWidth, tinyHidden}, nil},
		{"blk.0.ffn_down.weight", []uint64{tinyHidden, tinyWidth}, nil},
	}
}

// A ggufWriter writes a file of the format GGUF.
type ggufWriter struct {
	t    *testing.T
	file bytes.Buffer
}

func (g *ggufWriter) put(values ...any) {
	for _, v := range values {
		if s, ok := v.(string); ok {
			binary.Write(&g.file, binary.LittleEndian, uint64(len(s))) //nolint:errcheck // memory
			g.file.WriteString(s)
		} else if err := binary.Write(&g.file, binary.LittleEndian, v); err != nil {
			g.t.Fatal(err)
		}
	}
}

// putTensors writes the descriptions of all tensors, and then their aligned values.
func (g *ggufWriter) putTensors(tensors []tensor) {
	offset := uint64(0)
	sizes := make([]uint64, len(tensors))
	for i, tensor := range tensors {
		count := uint64(1)
		for _, d := range tensor.shape {
			count *= d
		}
		sizes[i] = count
		g.put(tensor.name, uint32(len(tensor.shape)), tensor.shape, uint32(0), offset)
		offset += (count*4 + 31) / 32 * 32
	}
	pad := func() { g.file.Write(make([]byte, (32-g.file.Len()%32)%32)) }
	pad()
	for i, tensor := range tensors {
		values := tensor.values
		if values == nil {
			values = make([]float32, sizes[i])
		}
		for _, v := range values {
			g.put(math.Float32bits(v))
		}
		pad()
	}
}
