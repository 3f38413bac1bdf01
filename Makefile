# The commands of this repository. `make` lists them.

.PHONY: help build encryption test test-busy check quick lint walk size demo run bench chaos fuzz mutate conformance test-systemd test-deb test-partition test-slow-disk test-power-cut test-read-only test-proxy test-agents test-emulator test-a2a test-hooks test-chorus test-matrix test-models generate package install uninstall package-check mcp-conformance test-console soak lint-deep clean

# As in scripts/frugal: every target shares Go's cache.
export GOFLAGS := $(GOFLAGS) -gcflags=all=-dwarf=false

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

build: ## build every program into bin/
	@scripts/build

encryption: ## build hubbub-matrix with encryption, for encrypted rooms of Matrix, into bin/
	@TAGS=goolm scripts/build bin hubbub-matrix

test: ## build everything and run the tests
	@scripts/test

test-busy: ## run the tests ten times beside eight busy loops (RUNS=10)
	@scripts/test-busy

check: ## run linters, laws, all tests with -race, and the long commands for a moment
	@scripts/check

quick: ## run all tests without -race, in short mode
	@go test -short ./...

lint: ## run gofmt, vet and staticcheck
	@scripts/lint

walk: ## run for long what the tests run for a moment: 10,000 messages of three agents and two people, thousands of model answers
	@scripts/walk

size: ## count the lines of production code of each package
	@scripts/size

lint-deep: ## run golangci-lint, whose first build takes minutes
	@scripts/lint-deep

demo: ## play a group chat with the whole system, without a token or network
	@scripts/build bin hubbub hubbub-bus hubbub-system hubbub-broker hubbub-tg hubbub-agent
	@bin/hubbub demo

run: build ## run the whole system with hubbub.toml (see deploy/hubbub.toml)
	@bin/hubbub up --config hubbub.toml

bench: build ## measure the bus beside baselines and other systems, the hot path, the log, the broker and the cluster
	@scripts/bench

chaos: ## kill every program at each step, then at random for ten minutes: nothing may be lost or duplicated
	@scripts/chaos

fuzz: ## fuzz every parser, a minute each
	@scripts/fuzz

mutate: ## break the code in 100 places, one at a time: the tests must catch 85
	@scripts/mutate $(MUTATE)

conformance: build ## run the vectors of the drafts, and the wire cases against a new bus
	@scripts/conformance

test-systemd: build ## test the spawner with a real systemd (needs root or a user manager)
	@scripts/test-systemd

test-partition: build ## test the bus and a peer on a network that breaks (needs root)
	@scripts/test-partition

test-slow-disk: build ## test the bus on disks whose fsync takes 0.3, 1 and 3 s (needs strace)
	@scripts/test-slow-disk

test-power-cut: build ## test that the folder of each new file is synced (needs strace)
	@scripts/test-power-cut

test-read-only: build ## test the readers of the log where nothing can be written (needs root)
	@scripts/test-read-only

test-proxy: build ## test the bus and its console behind nginx, Caddy and HAProxy (needs nginx-light, caddy, haproxy)
	@scripts/test-proxy

test-agents: ## test coding agents from npm behind hubbub-agent, with scripted models (1 GB in the cache folder)
	@scripts/test-agents

test-emulator: ## test bus, spawner, bridge and agents with a Bot API server from npm
	@scripts/test-emulator

test-a2a: ## test Hubbub with agents and clients of A2A's JavaScript SDK (needs npm)
	@scripts/test-a2a

test-hooks: ## test hooks with the libraries of Standard Webhooks and GitHub (needs npm)
	@scripts/test-hooks

test-chorus: ## test two agents in a channel of an independent Chorus service, in Python
	@scripts/test-chorus

test-matrix: ## test the bridge for Matrix with Dendrite and people on nio (needs python3-matrix-nio)
	@scripts/test-matrix

test-models: ## test the model harness with Ollama, built from its Go module, and a tiny model (needs g++)
	@scripts/test-models

test-deb: ## test the package in a booted systemd: install, run, watchdog, upgrade, remove (needs root)
	@scripts/test-deb

mcp-conformance: build ## run the public MCP suite on tools, gateway and client, and three public servers (needs npm)
	@scripts/mcp-conformance.sh

test-console: build ## test the console in headless Chromium on a live demo (needs chromium and npm)
	@scripts/test-console.sh

generate: ## write the generated documents: sample settings, licences
	@scripts/generate

install: ## after make build, install programs, manual pages and completions below DESTDIR and PREFIX (/usr/local)
	@scripts/install install

uninstall: ## remove what make install installed
	@scripts/install uninstall

package: ## make a release in dist/: archives and .deb for amd64 and arm64
	@scripts/package

package-check: ## make the release twice and compare the bytes
	@scripts/package-check

soak: ## run chats for minutes and check the memory, files and goroutines of every program
	@scripts/soak

clean: ## remove what was built
	@rm -rf bin dist
