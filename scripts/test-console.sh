#!/bin/sh
# Opens every page of the console of a live demo in headless Chromium, in light and dark
# mode. The browser reports no errors, the tail moves, a trace is drawn, filters work,
# hostile names have no effect, axe-core finds no violation, and on a phone all controls
# are visible. Items that wait for a person are decided, answered and dropped. Each page
# looks like its picture in bus/console/testdata/pictures; PICTURES=keep updates the
# pictures, PICTURES=only compares only them. SCREENSHOTS=FOLDER keeps large pictures.
#
# It needs the programs in bin/ (or in the given folder), node, npm and chromium
# (apt-get install chromium nodejs npm). Nothing is installed outside a temporary
# folder. If it cannot run, it says so and succeeds.
set -eu
cd "$(dirname "$0")/.."
bin=$(cd "${1:-bin}" && pwd)
skip() { echo "test-console: skipped: $*"; exit 0; }
for tool in node npm script timeout; do
	command -v $tool >/dev/null || skip "$tool is missing (apt-get install nodejs npm bsdutils)"
done
script -qfec true /dev/null </dev/null >/dev/null 2>&1 || skip "the command script of util-linux is missing"
chromium=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
[ -n "$chromium" ] || skip "chromium is missing (apt-get install chromium)"

dir=$(mktemp -d)
demo=
finish() {
	[ -z "$demo" ] || kill "$demo" 2>/dev/null || true
	exec 3>&- || true
	[ -z "$demo" ] || wait "$demo" 2>/dev/null || true
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 130' INT TERM
timeout 120 npm install --prefix "$dir" --no-audit --no-fund --loglevel=error playwright-core@1 axe-core@4 >"$dir/npm.log" 2>&1 || {
	cat "$dir/npm.log" >&2
	skip "npm could not install playwright-core and axe-core; it needs the npm registry"
}

# The demo runs as long as its terminal exists, and makes no pauses if that has no width.
mkfifo "$dir/keys"
script -qfec "stty cols 0; exec '$bin/hubbub' demo --data '$dir/data'" "$dir/demo.out" <"$dir/keys" >/dev/null 2>&1 &
demo=$!
exec 3>"$dir/keys"
tries=0
until grep -q "Now it's your turn" "$dir/demo.out" 2>/dev/null; do
	tries=$((tries + 1))
	if [ $tries -gt 120 ] || ! kill -0 "$demo" 2>/dev/null; then
		echo "test-console: the demo did not get ready:" >&2
		tail -20 "$dir/demo.out" >&2
		exit 1
	fi
	sleep 0.5
done
address=$(sed -n 's/^listen = "\(.*\)"$/\1/p' "$dir/data/hubbub.toml")
[ -z "${SCREENSHOTS:-}" ] || mkdir -p "$SCREENSHOTS"
code=0
NODE_PATH="$dir/node_modules" CHROMIUM="$chromium" timeout 600 node bus/console/testdata/browser.js \
	"$address" "$dir/data/tokens/cli" "$bin/hubbub" "$dir/data" "${SCREENSHOTS:-}" || code=$?
[ $code != 77 ] || skip "see above"
exit $code
