package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"service-adapter/internal/value"
	"service-adapter/spec/kit"
)

// TestMetrics checks the metrics with Prometheus: promtool lints the text, and the server parses it as OpenMetrics
// and stores the samples.
func TestMetrics(t *testing.T) {
	promtool := kit.Program(t, "promtool", "scripts/install prometheus")
	prometheus := kit.Program(t, "prometheus", "scripts/install prometheus")
	site := newOperatorsSite(t)
	site.exist(t)
	// The rotated log has a command with characters that labels must escape, a line that a full disk cut off, and a
	// command that has not ended.
	const older = `{"time":"2026-01-02T03:04:05.5Z","event":"end","command":"a\"b\\c\nd","result":"done"}
{"time":"2026-01-02T03:04:06Z","event":"end","comm

{"time":"2026-01-02T03:04:07Z","event":"begin","command":"begun"}
`
	if err := os.WriteFile(filepath.Join(site.dir, "audit.log.1"), []byte(older), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := site.run("service-adapter metrics", "")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = bytes.NewReader(text)
	if output, err := check.CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("promtool check metrics: %v\n%s%s", err, output, text)
	}
	scraped := scrape(t, prometheus, text)
	for _, series := range []string{
		`service_adapter_bindings{condition="complete",service="one"} 1`,
		`service_adapter_instances{condition="complete",plan="small",service="one"} 1`,
		`service_adapter_oldest_unfinished_seconds{kind="binding"} 0`,
		`service_adapter_oldest_unfinished_seconds{kind="instance"} 0`,
		`service_adapter_locks_held{} 0`,
		`service_adapter_unreadable_paks{} 0`,
		`service_adapter_last_result_timestamp_seconds{command="create-binding",result="done"} `,
		`service_adapter_last_result_timestamp_seconds{command="generate-manifest",result="done"} `,
		`service_adapter_results_total{command="create-binding",result="done"} 1`,
		`service_adapter_results_total{command="create-binding",result="failed"} 0`,
		`service_adapter_last_result_timestamp_seconds{command="a\"b\\c\nd",result="done"} 1767323045.5`,
	} {
		if !strings.Contains(scraped, series) {
			t.Errorf("the series %s is missing in\n%s", series, scraped)
		}
	}
	if strings.Contains(scraped, "begun") || strings.Contains(string(text), "b1") {
		t.Errorf("a command that has not ended has a result, or a label contains an id:\n%s", text)
	}
}

// scrape starts a Prometheus that reads a text as OpenMetrics, and returns the series that it has stored; see ask. It
// fails the test if Prometheus cannot parse the text.
func scrape(t *testing.T, prometheus string, text []byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
		_, _ = w.Write(text)
	}))
	t.Cleanup(server.Close)
	address := httptest.NewServer(nil) // reserves a free port
	address.Close()
	dir, listen := t.TempDir(), strings.TrimPrefix(address.URL, "http://")
	config := fmt.Sprintf("scrape_configs: [{job_name: x, scrape_interval: 1s, static_configs: [{targets: [%q]}]}]\n",
		strings.TrimPrefix(server.URL, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	running := exec.CommandContext(t.Context(), prometheus, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+dir, "--web.listen-address="+listen)
	running.Stdout, running.Stderr = &log, &log
	if err := running.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Process.Kill(); _ = running.Wait() })
	query := address.URL + "/api/v1/query?query=" + url.QueryEscape(`{__name__=~"service_adapter.*|up"}`)
	for range 600 {
		if series := ask(query); strings.Contains(series, "up{} 1") {
			return series
		} else if strings.Contains(series, "up{} 0") {
			t.Fatalf("Prometheus rejects the metrics\n%s", text)
		}
		time.Sleep(100 * time.Millisecond)
	}
	_ = running.Process.Kill()
	_ = running.Wait()
	t.Fatalf("Prometheus did not read the metrics:\n%s", log.String())
	return ""
}

// ask sends a query to Prometheus and returns one line NAME{LABELS} VALUE for each series, without the labels that
// Prometheus adds. It returns "" if Prometheus does not respond.
func ask(query string) string {
	response, err := http.Get(query) //nolint:gosec,noctx // a server of the test
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct {
				Metric map[string]string
				Value  []any
			}
		}
	}
	if json.NewDecoder(response.Body).Decode(&answer) != nil {
		return ""
	}
	var lines strings.Builder
	for _, one := range answer.Data.Result {
		name := one.Metric["__name__"]
		for _, added := range []string{"__name__", "instance", "job"} {
			delete(one.Metric, added)
		}
		var labels []string
		for _, label := range value.Keys(one.Metric) {
			labels = append(labels, fmt.Sprintf("%s=%q", label, one.Metric[label]))
		}
		fmt.Fprintf(&lines, "%s{%s} %v\n", name, strings.Join(labels, ","), one.Value[1])
	}
	return lines.String()
}

// TestAlerts checks the alerts in docs/alerts.yml with promtool, and when they fire.
func TestAlerts(t *testing.T) {
	promtool := kit.Program(t, "promtool", "scripts/install prometheus")
	dir := t.TempDir()
	for name, source := range map[string]string{
		"alerts.yml":      filepath.Join(repository(t), "docs", "alerts.yml"),
		"alerts_test.yml": filepath.Join("testdata", "metrics", "alerts_test.yml"),
	} {
		text, err := os.ReadFile(source)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		command := exec.CommandContext(t.Context(), promtool, arguments...)
		command.Dir = dir
		if output, err := command.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(arguments, " "), err, output)
		}
	}
}
