#!/bin/sh
# Runs the public MCP conformance suite against the MCP endpoint of the Chorus gateway,
# the chat tools of an agent, and the client with which agents use other servers, in the
# revisions 2025-11-25 and 2026-07-28 of the protocol. It also runs three public servers
# as tools of an agent. Every scenario of the suite runs or is skipped with a reason: it
# tests features that are not announced (resources, prompts, OAuth), or it needs tools
# that ask, log or show pictures. The suite needs node 22, which npm fetches. Nothing is
# installed outside a temporary folder.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
npm install --prefix "$dir" --no-audit --no-fund --loglevel=error node@22 @modelcontextprotocol/conformance@0.2.0-alpha.12 \
	@modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
	@modelcontextprotocol/server-memory@2026.8.31 >"$dir/npm.log" 2>&1 || {
	cat "$dir/npm.log" >&2
	echo "mcp-conformance: npm could not install the suite; it needs npm and the npm registry" >&2
	exit 1
}
export HUBBUB_MCP_SERVERS="$dir/node_modules/.bin"
export HUBBUB_MCP_CONFORMANCE="$HUBBUB_MCP_SERVERS/node $dir/node_modules/@modelcontextprotocol/conformance/dist/index.js"
go test -count=1 -v -run '^(TestMCPConformance.*|TestPublicServers)$' ./peers/chorus ./peers/agent/harness/mcptools
