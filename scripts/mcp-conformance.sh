#!/bin/sh
# Runs the public MCP conformance suite against the MCP endpoint of the Chorus
# gateway. The suite needs node 22, which npm fetches: nothing is installed outside of
# a temporary folder.
set -eu
cd "$(dirname "$0")/.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
npm install --prefix "$dir" --no-audit --no-fund --loglevel=error node@22 @modelcontextprotocol/conformance@0.1.16 >"$dir/npm.log" 2>&1 || {
	cat "$dir/npm.log" >&2
	echo "mcp-conformance: npm could not install the suite; it needs npm and the npm registry" >&2
	exit 1
}
suite="$dir/node_modules/.bin/node $dir/node_modules/@modelcontextprotocol/conformance/dist/index.js"
HUBBUB_MCP_CONFORMANCE="$suite" go test -count=1 -v -run '^TestMCPConformance$' ./peers/chorus
