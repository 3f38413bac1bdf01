package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog/write"
	"hubbub/bus"
	"hubbub/cmd/internal/program"

	"github.com/spf13/pflag"
)

// A limit is a bound of the bus, with the places that document, show and test it.
type limit struct {
	flag    string   // empty where the bound is fixed
	text    string   // the words of docs/limits.md, for a bound without a flag
	metric  string   // its label of hubbub_limit
	used    bool     // hubbub_limit_used shows its use
	reached string   // the series that counts, or shows, that it was reached; empty for a fixed one
	tests   []string // at the limit, and one past it
}

const reachedTotal = `hubbub_limit_reached_total{limit="`

// limits has every limit of the bus. See the tests for what happens at each.
var limits = []limit{
	{"max-frame", "", "max_frame_bytes", false, reachedTotal + `max_frame"}`,
		[]string{"TestFrame_AtLimitAndPast", "TestSend_AtTheSizeLimitAndOnePast", "TestCall_AtLimitOfOtherSideAndPast"}},
	{"peer-window", "", "peer_window", true, "hubbub_deliveries_queued", []string{"TestWindowAndQueue_AtLimitAndPast"}},
	{"peer-queue", "", "peer_queue", true, reachedTotal + `peer_queue"}`, []string{"TestWindowAndQueue_AtLimitAndPast"}},
	{"peer-queue-bytes", "", "peer_queue_bytes", true, reachedTotal + `peer_queue"}`, []string{"TestQueueBytes_AtLimitAndPast"}},
	{"peer-buffer", "", "peer_buffer_bytes", true, "hubbub_deliveries_queued", []string{"TestPeerBuffer_AtLimitAndPast"}},
	{"slow-bytes", "", "slow_bytes", true, reachedTotal + `slow_bytes"}`, []string{"TestSlowBytes_AtLimitAndPast"}},
	{"write-timeout", "", "write_timeout_seconds", false, reachedTotal + `write_timeout"}`,
		[]string{"TestSlowConsumer_IsNotOneThatReadsSlowly", "TestSlowConsumer", "TestPeer_ThatNeverReadsIsClosed"}},
	{"delivery-timeout", "", "delivery_timeout_seconds", false, `hubbub_deliveries_total{outcome="timeout"}`,
		[]string{"TestCluster_CountsAnswersInTime", "TestDelivery_TimeoutIncludesQueueTime"}},
	{"initialize-timeout", "", "initialize_timeout_seconds", false, reachedTotal + `initialize_timeout"}`,
		[]string{"TestCluster_CountsAnswersInTime", "TestInitialize_TimesOut"}},
	{"ping-interval", "", "ping_interval_seconds", false, reachedTotal + `ping"}`,
		[]string{"TestPing_AtLimitAndPast", "TestPing_EndsSilentSession"}},
	{"max-subscriptions", "", "max_subscriptions", true, reachedTotal + `max_subscriptions"}`,
		[]string{"TestSubscriptions_AtLimitAndPast"}},
	{"max-sessions", "", "max_sessions", true, reachedTotal + `max_sessions"}`,
		[]string{"TestSessions_AtLimitAndPast", "TestSessions_CountSlowPeersThatAreBeingClosed"}},
	{"credential-sessions", "", "credential_sessions", true, reachedTotal + `credential_sessions"}`,
		[]string{"TestQuota_SessionsAtLimitAndPast"}},
	{"credential-subscriptions", "", "credential_subscriptions", true, reachedTotal + `credential_subscriptions"}`,
		[]string{"TestQuota_SubscriptionsAtLimitAndPast"}},
	{"credential-messages", "", "credential_messages", true, reachedTotal + `credential_messages"}`,
		[]string{"TestQuota_MessagesAtLimitAndPast"}},
	{"credential-bytes", "", "credential_bytes", true, reachedTotal + `credential_bytes"}`,
		[]string{"TestQuota_BytesAtLimitAndPast"}},
	{"credential-log-bytes", "", "credential_log_bytes", true, reachedTotal + `credential_log_bytes"}`,
		[]string{"TestQuota_LogBytesAtLimitAndPast"}},
	{"activity-queue", "", "activity_queue_rows", true, "hubbub_activity_rows_lost_total",
		[]string{"TestWriter_StalledOneHoldsNobody", "TestWriter_HoldsPublishersToItsSpeed"}},
	{"activity-queue-bytes", "", "activity_queue_bytes", true, "hubbub_activity_rows_lost_total",
		[]string{"TestQueue_IsBoundedInBytes"}},
	{"activity-hold", "", "activity_hold_seconds", false, "hubbub_activity_rows_lost_total",
		[]string{"TestWriter_SlowCommitLosesNothing", "TestWriter_StalledOneHoldsNobody"}},
	{"activity-wal", "", "activity_wal_bytes", true, "hubbub_activity_stalled",
		[]string{"TestWriter_BoundsWALDespiteReader"}},
	{"activity-segment-rows", "", "activity_segment_rows", false, "hubbub_activity_rows_written_total", []string{"TestSegments_ReadAsOneLog"}},
	{"activity-segment-bytes", "", "activity_segment_bytes", false, "hubbub_activity_rows_written_total", []string{"TestSegment_EndsByBytesAndAge"}},
	{"activity-segment-age", "", "activity_segment_age_seconds", false, "hubbub_activity_rows_written_total", []string{"TestSegment_EndsByBytesAndAge"}},
	{"", "topics, identities, message ids, `inReplyTo` and `traceparent` have at most 256 bytes", "topic_bytes", false, "", []string{"TestScanSend"}},
	{"", "topics, identities, message ids, `inReplyTo` and `traceparent` have at most 256 bytes", "client_id_bytes", false, "", []string{"TestScanInitialize", "TestScanSend"}},
	{"", "topics, identities, message ids, `inReplyTo` and `traceparent` have at most 256 bytes", "message_id_bytes", false, "", []string{"TestScanSend"}},
	{"", "Patterns have at most 128 bytes", "pattern_bytes", false, "", []string{"TestScanSubscribe"}},
	{"", "8 stars", "pattern_stars", false, "", []string{"TestScanSubscribe"}},
	{"", "JSON has at most 64 levels of nesting", "json_depth", false, "", []string{"TestDepth_AtLimitAndPast"}},
}

// TestEveryLimit_IsDocumentedMeasuredAndTested fails when a bound of the bus has no line
// in docs/limits.md, no metric with its default, or no test, and when a flag with a
// number or a duration is missing from the table.
func TestEveryLimit_IsDocumentedMeasuredAndTested(t *testing.T) {
	var s settings
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	program.AddFlags(flags, s.all()...)
	metrics, page, tests := scrape(t, &s), oneLine(readFile(t, "../../docs/limits.md")), testNames(t)
	told := map[string]bool{}
	for _, l := range limits {
		name := l.metric
		if l.flag != "" {
			name, told[l.flag] = "--"+l.flag, true
			l.check(t, flags.Lookup(l.flag), metrics, page)
		}
		if !strings.Contains(page, l.text) {
			t.Errorf("%s: docs/limits.md does not say %q", name, l.text)
		}
		if _, ok := metrics[`hubbub_limit{limit="`+l.metric+`"}`]; !ok {
			t.Errorf("%s: /metrics has no hubbub_limit with the label %s", name, l.metric)
		}
		for _, test := range l.tests {
			if !tests[test] {
				t.Errorf("%s: there is no %s", name, test)
			}
		}
		if len(l.tests) == 0 {
			t.Errorf("%s has no test", name)
		}
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if kind := f.Value.Type(); slices.Contains([]string{"int", "int64", "duration"}, kind) && !told[f.Name] {
			t.Errorf("--%s is no bound of the table", f.Name)
		}
	})
}

// check looks for a flag of the bus in what people read.
func (l *limit) check(t *testing.T, f *pflag.Flag, metrics map[string]float64, page string) {
	t.Helper()
	if f == nil {
		t.Errorf("--%s is no flag", l.flag)
		return
	}
	if got := metrics[`hubbub_limit{limit="`+l.metric+`"}`]; got != number(t, f.DefValue) {
		t.Errorf("--%s is %s, and its metric says %v", l.flag, f.DefValue, got)
	}
	if _, ok := metrics[`hubbub_limit_used{limit="`+l.metric+`"}`]; ok != l.used {
		t.Errorf("--%s: hubbub_limit_used has the label %s: %t; want %t", l.flag, l.metric, ok, l.used)
	}
	if _, ok := metrics[l.reached]; !ok {
		t.Errorf("--%s: /metrics has no %s", l.flag, l.reached)
	}
	if want := "`--" + l.flag + " " + f.DefValue + "`"; !strings.Contains(page, want) {
		t.Errorf("docs/limits.md does not say %s", want)
	}
}

// number reads a default: a count, or a duration in seconds.
func number(t *testing.T, text string) float64 {
	t.Helper()
	if d, err := time.ParseDuration(text); err == nil {
		return d.Seconds()
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// scrape reads the metrics of a bus with its default settings.
func scrape(t *testing.T, s *settings) map[string]float64 {
	t.Helper()
	log := write.NewWriter(filepath.Join(t.TempDir(), "activity.db"), &s.log)
	w := httptest.NewRecorder()
	bus.New(log, &s.bus).Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:7892/metrics", nil))
	series := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); ok && err == nil {
			series[name] = n
		}
	}
	return series
}

// oneLine makes a text one line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// testNames lists the tests of the packages that keep the limits.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names, declared := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test\w+)\(t `)
	for _, pkg := range []string{"bus", "activitylog/write", "protocol", "protocol/jsonrpc", "protocol/wire", "peers/peer"} {
		files, err := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for _, m := range declared.FindAllStringSubmatch(readFile(t, file), -1) {
				names[m[1]] = true
			}
		}
	}
	return names
}
