# The commands of this repository. `make` lists them.

.PHONY: help build test check quick lint walk size demo run bench chaos fuzz mutate conformance test-systemd test-deb test-partition test-slow-disk test-power-cut test-agents test-emulator test-a2a test-hooks test-chorus test-models generate package install uninstall package-check mcp-conformance test-console soak lint-deep clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

build: ## build every program into bin/
	@scripts/build

test: ## build everything and run all tests
	@scripts/test

check: ## what else must hold: linters, laws, all tests with -race, the long commands for a moment
	@scripts/check

quick: ## all tests without -race, the short way
	@go test -short ./...

lint: ## gofmt, vet, staticcheck
	@scripts/lint

walk: ## play at length what the tests play for a moment: 10,000 messages of three agents and two people, thousands of answers of models
	@scripts/walk

size: ## count the lines of production code of each package
	@scripts/size

lint-deep: ## golangci-lint, whose first build takes minutes
	@scripts/lint-deep

demo: ## play a group chat with the whole system, without a token or network
	@scripts/build bin hubbub hubbub-bus hubbub-system hubbub-broker hubbub-tg hubbub-agent
	@bin/hubbub demo

run: build ## run the whole system with hubbub.toml (see deploy/hubbub.toml)
	@bin/hubbub up --config hubbub.toml

bench: build ## measure the bus beside its floors and other systems, the hot path, the log, the broker, the cluster
	@scripts/bench

chaos: ## kill every program at each step, then at random for ten minutes: is anything lost or doubled?
	@scripts/chaos

fuzz: ## fuzz every parser, a minute each
	@scripts/fuzz

mutate: ## break the code in 100 places, in turn: do the tests of what must not lose or give away notice 85?
	@scripts/mutate $(MUTATE)

conformance: build ## run the vectors of the drafts, and the wire cases against a fresh bus
	@scripts/conformance

test-systemd: build ## the spawner against a real systemd (needs root or a user manager)
	@scripts/test-systemd

test-partition: build ## the bus and a peer on two sides of a network that breaks (needs root)
	@scripts/test-partition

test-slow-disk: build ## the bus on disks whose every fsync takes 0.3, 1 and 3 s (needs strace)
	@scripts/test-slow-disk

test-power-cut: build ## each new file and folder has its folder synced (needs strace)
	@scripts/test-power-cut

test-agents: ## coding agents from npm behind hubbub-agent, against scripted models (1 GB in the cache folder)
	@scripts/test-agents

test-emulator: ## bus, spawner, bridge and agents against a Bot API server from npm
	@scripts/test-emulator

test-a2a: ## agents and clients of A2A's JavaScript SDK with ours (needs npm)
	@scripts/test-a2a

test-hooks: ## posts of the JavaScript libraries of Standard Webhooks and GitHub (needs npm)
	@scripts/test-hooks

test-chorus: ## two agents in a channel of a Chorus service that is not ours, in Python
	@scripts/test-chorus

test-models: ## the model harness against Ollama, built from its Go module, with a tiny model (needs g++)
	@scripts/test-models

test-deb: ## the package in a booted systemd: install, run, watchdog, upgrade, remove (needs root)
	@scripts/test-deb

mcp-conformance: build ## the public MCP suite against tools, gateway and client, and three public servers (needs npm)
	@scripts/mcp-conformance.sh

test-console: build ## the console in headless Chromium on a live demo (needs chromium and npm)
	@scripts/test-console.sh

generate: ## write the generated documents: sample settings, licences
	@scripts/generate

install: ## put programs, manual pages and completions below DESTDIR and PREFIX (/usr/local), after make build
	@scripts/install install

uninstall: ## take away what make install put there
	@scripts/install uninstall

package: ## make a release in dist/: archives and .deb for amd64 and arm64
	@scripts/package

package-check: ## make the release twice and compare the bytes
	@scripts/package-check

soak: ## talk for minutes and watch the memory, files and goroutines of every program
	@scripts/soak

clean: ## remove what was built
	@rm -rf bin dist
