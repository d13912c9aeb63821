package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/paklint"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// newPrepare is `prepare`.
func newPrepare(streams Streams) *cobra.Command {
	var dir string
	command := &cobra.Command{
		Use:   "prepare",
		Short: "Check the configuration and initialise OpenTofu ahead",
		Long: `Check the adapter's configuration and its paks, and initialise OpenTofu for all their templates in a directory, which the configuration
of later commands names as prepared_dir and which they only read. It holds the credentials of the state backend.

What is wrong in the configuration or a pak is an error. A state backend that does not answer is a warning: what is missing is then
initialised when it is first used.` + exits("0 prepared, or the state backend does not answer", "1 the configuration or a pak is wrong"),
		Example: "  service-adapter prepare --dir /var/vcap/data/service-adapter/prepared",
		RunE: func(command *cobra.Command, _ []string) error {
			done, err := prepare(command, streams, dir)
			if errors.As(err, new(usageError)) {
				return err
			}
			if err != nil {
				say(streams, "service-adapter: "+err.Error())
				return errFindings
			}
			for _, warning := range done.Warnings {
				say(streams, "warning: "+warning)
			}
			var product strings.Builder
			for _, action := range done.Actions {
				fmt.Fprintf(&product, "prepared %s in %s\n", action, done.Dir)
			}
			return write(streams.Stdout, product.String())
		},
	}
	command.Flags().StringVar(&dir, "dir", "", "the directory (default: prepared_dir of the configuration)")
	return command
}

func prepare(command *cobra.Command, streams Streams, dir string) (*adapter.Preparation, error) {
	config, err := adapter.LoadConfig(streams.Getenv)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(cmp.Or(dir, config.PreparedDir)) {
		return nil, usageError{adapter.ErrNoDirectory}
	}
	for _, path := range config.Paks {
		report, err := paklint.Lint(command.Context(), path)
		if err != nil {
			return nil, err
		}
		if err := firstError(path, report.Diagnostics); err != nil {
			return nil, err
		}
	}
	return adapter.Prepare(command.Context(), streams.Invocation, dir)
}

// firstError makes one line of the errors of a pak, as the log of a job's start has them.
func firstError(path string, found []diag.Diagnostic) error {
	found, more := errorsOf(found), ""
	if len(found) == 0 {
		return nil
	}
	if len(found) > 1 {
		more = fmt.Sprintf("; and %s more, see service-adapter pak validate", counted(len(found)-1, "error"))
	}
	return fmt.Errorf("pak %s is wrong: %s%s", path, found[0].String(), more)
}

// newReplay is `replay FILE`.
func newReplay(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE",
		Short: "Play a recorded request again, without side effects",
		Long: `Play a request again that the adapter recorded (record_requests in its configuration), without side effects: manifests, dashboards
and schemas are made again, for a binding the variables of its template are printed. Secrets were replaced by [redacted] when the
request was recorded. It uses the adapter's configuration.` + exits("0 the command succeeded", "1 it failed as the log tells"),
		Example: "  service-adapter replay /var/vcap/data/service-adapter/requests/20261121T101500.000000000Z-generate-manifest-42.json",
		RunE: func(command *cobra.Command, args []string) error {
			code, err := adapter.Replay(command.Context(), streams.Invocation, args[0])
			if err == nil && code != 0 {
				say(streams, fmt.Sprintf("the command ended with exit code %d", code))
			}
			return cmp.Or(err, findings(code != 0))
		},
	}
}

// newMetrics is `metrics`.
func newMetrics(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "metrics",
		Short: "Print metrics for Prometheus",
		Long: `Print metrics in the text format of OpenMetrics, which Prometheus and the textfile collector of its node_exporter read: bindings and
instances by service, plan and condition, the age of the oldest that is not finished, the locks that are held (of the backends local
and pg), and, where audit_log is configured, when each command last ended with which result.

All states are read, as bindings list does. docs/operations.md has the line for cron and the alerts.` + exits("0 printed"),
		Example: "  service-adapter metrics > metrics.tmp && mv metrics.tmp /var/lib/node_exporter/service_adapter.prom",
	}
	return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, _ []string) error {
		text, err := operator.Metrics(ctx)
		if err != nil {
			return err
		}
		return write(streams.Stdout, text)
	})
}

// version is the product of `version --json`.
type version struct {
	Program  string         `json:"program"`
	Commit   string         `json:"commit,omitempty"`
	Go       string         `json:"go"`
	OpenTofu []string       `json:"opentofu_tested"`
	Formats  map[string]int `json:"formats"`
}

// text is the version for people, one fact a line.
func (v version) text() string {
	text := "service-adapter " + v.Program + "\n"
	if v.Commit != "" {
		text += "commit: " + v.Commit + "\n"
	}
	text += "Go: " + v.Go + "\nOpenTofu tested: " + strings.Join(v.OpenTofu, ", ") + "\n"
	for _, name := range value.Keys(v.Formats) {
		text += fmt.Sprintf("format of %s: %d\n", strings.ReplaceAll(name, "_", " "), v.Formats[name])
	}
	return text
}

// newVersion is `version`.
func newVersion(streams Streams) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and of what it knows",
		Long: `Print the version of this program, the commit it was built from when that is known, and the versions of Go, of OpenTofu and of
the formats that it knows: of brokerpaks, of the record in manifests, and of the record in states.` + exits("0 always"),
		Example: "  service-adapter version --json",
		RunE: func(*cobra.Command, []string) error {
			found := version{
				Program: cmp.Or(streams.Release, "development"), Commit: streams.Commit, Go: runtime.Version(), OpenTofu: opentofu.Tested(),
				Formats: map[string]int{
					"brokerpak": brokerpak.PackVersion, "manifest_record": record.Format, "state_record": lifecycle.RecordFormat,
				},
			}
			return writeEither(streams, asJSON, found, found.text())
		},
	}
	jsonFlag(command, &asJSON)
	return command
}
