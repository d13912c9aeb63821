package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"service-adapter/internal/author/lint"
	"service-adapter/internal/diag"
)

// maxFindings is the number of findings that are shown. The others are only counted, except in JSON, which has all
// findings.
const maxFindings = 50

// A validateOptions holds the flags of `pak validate`. `pak diff` uses only format and strict. With the zero value, the
// command prints the findings of a pak as text, does not turn warnings into errors, and compares the manifests with no
// BOSH releases.
type validateOptions struct {
	// format is text, json or github.
	format string
	// strict turns warnings into errors.
	strict bool
	// rules lists the rules instead of checking a pak.
	rules bool
	// releases are the releases with which manifests are compared.
	releases releaseFlags
}

// newValidate returns the command `pak validate PATH`, which prints the errors and warnings of a pak, a directory or a
// zip file, in the format of --format; see printReport. With --release it also compares the BOSH manifests with
// releases, and with --rules, which takes no PATH, it prints the list of all rules instead. The command exits with
// exitFindings if the pak has errors, or with --strict also if it has warnings. It returns a usageError for an invalid
// command line, and another error if the pak or a release cannot be read, if the context ends, or if the output cannot
// be written.
func newValidate(streams Streams) *cobra.Command {
	var options validateOptions
	command := &cobra.Command{
		Use:   "validate PATH",
		Short: "Find errors in a pak",
		Long: `Find all errors in a pak, which is a directory or a zip: in the manifest and the definitions, the
OpenTofu and BOSH templates, expressions, images and binaries. The manifest of each plan and each example is generated,
but nothing is deployed.

Each finding has a position and a rule: FILE:LINE:COLUMN: MESSAGE [RULE]. docs/rules.md explains the rules, --rules
lists them. An error means that something cannot work. A warning means that something works although the specification
forbids it.

With --release, the manifests are also compared with the BOSH releases that they deploy: jobs that no release has or
that several have, properties that a job does not declare or that it needs, and links that BOSH cannot resolve. Name
every release of the deployment. A release is a tarball, compiled or not, or a directory with its source.` +
			exitStatus("0 no errors", "1 errors (with --strict also warnings)"),
		Example: "  service-adapter pak validate redis --strict\n" +
			"  service-adapter pak validate redis --release redis-forge-1.4.2.tgz --release ../errand-release",
		Args: func(command *cobra.Command, args []string) error {
			if options.rules {
				return exactArgs()(command, args)
			}
			return exactArgs("PATH")(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			if options.rules {
				return writeRules(streams.Stdout)
			}
			releases, err := options.releases.open(command.Context())
			if err != nil {
				return err
			}
			report, err := lint.Lint(command.Context(), args[0], releases...)
			if err != nil {
				return err
			}
			return options.printReport(streams, report, "")
		},
	}
	options.flags(command)
	command.Flags().BoolVar(&options.rules, "rules", false, "list all rules instead of checking a pak")
	options.releases.add(command, "compare manifests with")
	return command
}

// flags adds --format, with the default "text", and --strict to a command that prints findings; parsing the command
// line stores their values in o. flags also replaces the command's PreRunE by a check that returns a usageError unless
// the format is text, json or github.
func (o *validateOptions) flags(command *cobra.Command) {
	command.Flags().StringVar(&o.format, "format", "text",
		"text, json (in the format of terraform validate) or github (annotations)")
	command.Flags().BoolVar(&o.strict, "strict", false, "treat every warning as an error")
	command.PreRunE = func(*cobra.Command, []string) error {
		return checkOneOf("format", o.format, []string{"text", "json", "github"})
	}
}

// writeRules writes a table of all rules of `pak validate` to out, one line for each rule with its name, its severity
// and its summary. It returns an error only if out cannot be written.
func writeRules(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, rule := range lint.Rules() {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", rule.Name, rule.Severity, rule.Summary) // Flush returns the error
	}
	return table.Flush()
}

// printReport writes the findings of a report to standard output, in the format that the flags choose, and its notes
// and a summary to standard error. JSON contains all findings; the formats text and github contain only the 50
// (maxFindings) most severe findings, and the number of the others is written to standard error. verdict is the result
// of a comparison of two paks, which begins the summary and is a field of the JSON, or "" for the check of one pak.
// With strict, printReport changes the warnings in the report to errors first. It returns errFindings if the report
// then contains errors, another error if the findings cannot be written, and nil otherwise.
func (o validateOptions) printReport(streams Streams, report *lint.Report, verdict string) (err error) {
	all := report.Diagnostics
	for i := range all {
		if o.strict && all[i].Severity == diag.Warning {
			all[i].Severity = diag.Error
		}
	}
	shown := mostSevere(all)
	switch o.format {
	case "json":
		err = diag.WriteJSON(streams.Stdout, all, report.Source, verdict)
		shown = all
	case "github":
		err = diag.WriteGitHub(streams.Stdout, shown)
	default:
		err = diag.WriteText(streams.Stdout, shown, report.Source, useColours(streams))
	}
	if err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	for _, note := range report.Notes {
		say(streams, "note: "+note)
	}
	if rest := len(all) - len(shown); rest > 0 {
		say(streams, fmt.Sprintf("and %s more", counted(rest, "finding")))
	}
	count := len(errorsOf(all))
	if verdict != "" {
		say(streams, fmt.Sprintf("%s: %s", verdict, counted(len(all), "finding")))
	} else {
		say(streams, fmt.Sprintf("%s, %s in %s",
			counted(count, "error"), counted(len(all)-count, "warning"), counted(report.Files, "file")))
	}
	return findingsError(count > 0)
}

// errorsOf returns a new slice of the diagnostics whose severity is error, in the same order. Warnings and notices are
// left out, and diagnostics is not changed. The result is empty if there are none.
func errorsOf(diagnostics []diag.Diagnostic) []diag.Diagnostic {
	isOther := func(diagnostic diag.Diagnostic) bool { return diagnostic.Severity != diag.Error }
	return slices.DeleteFunc(slices.Clone(diagnostics), isOther)
}

// mostSevere returns a new slice of at most 50 (maxFindings) findings, sorted by position. If there are more findings,
// it prefers errors to warnings and these to notices; of equally severe findings, it prefers the earlier ones in the
// list. findings is not changed.
func mostSevere(findings []diag.Diagnostic) []diag.Diagnostic {
	severe := slices.Clone(findings)
	slices.SortStableFunc(severe, func(a, b diag.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) })
	severe = severe[:min(len(severe), maxFindings)]
	slices.SortStableFunc(severe, diag.Compare)
	return severe
}
