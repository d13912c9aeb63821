package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/pakdiff"
	"service-adapter/internal/paklint"
)

// maxFindings is how many findings are shown; the others are counted. JSON has all of them.
const maxFindings = 50

// validateOptions are the flags of `pak validate`.
type validateOptions struct {
	format string
	strict bool
	rules  bool
}

// newValidate is `pak validate PATH`.
func newValidate(streams Streams) *cobra.Command {
	var options validateOptions
	command := &cobra.Command{
		Use:   "validate PATH",
		Short: "Find what is wrong with a pak",
		Long: `Find everything that is wrong with a pak, a directory or a zip, in one run: the manifest and the definitions, the OpenTofu and
BOSH templates, expressions, images and binaries. Each plan and each example is deployed on paper.

Each finding has a place and a rule: FILE:LINE:COLUMN: MESSAGE [RULE]. docs/rules.md explains the rules, --rules lists them.
An error means that something cannot work; what works although the specification forbids it is a warning.` +
			exits("0 no errors", "1 errors (with --strict also warnings)"),
		Example: "  service-adapter pak validate redis --strict",
		Args: func(command *cobra.Command, args []string) error {
			if options.rules {
				return exactly()(command, args)
			}
			return exactly("PATH")(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			if options.rules {
				return listRules(streams.Stdout)
			}
			report, err := paklint.Lint(command.Context(), args[0])
			if err != nil {
				return err
			}
			return options.tell(streams, report, "")
		},
	}
	options.flags(command)
	command.Flags().BoolVar(&options.rules, "rules", false, "list the rules")
	return command
}

// flags adds the flags of commands that print findings, and lets them refuse formats that do not exist.
func (o *validateOptions) flags(command *cobra.Command) {
	command.Flags().StringVar(&o.format, "format", "text", "text, json (in the shape of terraform validate) or github (annotations)")
	command.Flags().BoolVar(&o.strict, "strict", false, "make every warning an error")
	command.PreRunE = func(*cobra.Command, []string) error {
		return oneOf("format", o.format, []string{"text", "json", "github"})
	}
}

func listRules(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, rule := range paklint.Rules() {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", rule.Name, rule.Severity, rule.Summary) // Flush reports
	}
	return table.Flush()
}

// tell writes findings in the format that was asked for, notes, and a summary with the verdict of a comparison. The error is errFindings
// when there are errors, with strict also when there are warnings.
func (o validateOptions) tell(streams Streams, report *paklint.Report, verdict string) (err error) {
	found := report.Diagnostics
	for i := range found {
		if o.strict && found[i].Severity == diag.Warning {
			found[i].Severity = diag.Error
		}
	}
	shown := mostSevere(found)
	switch o.format {
	case "json":
		err = diag.WriteJSON(streams.Stdout, found, report.Source, verdict)
		shown = found
	case "github":
		err = diag.WriteGitHub(streams.Stdout, shown)
	default:
		err = diag.WriteText(streams.Stdout, shown, report.Source, colours(streams))
	}
	if err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	for _, note := range report.Notes {
		say(streams, "note: "+note)
	}
	if rest := len(found) - len(shown); rest > 0 {
		say(streams, fmt.Sprintf("and %s more", counted(rest, "finding")))
	}
	count := len(errorsOf(found))
	if verdict != "" {
		say(streams, fmt.Sprintf("%s: %s", verdict, counted(len(found), "finding")))
	} else {
		say(streams, fmt.Sprintf("%s, %s in %s", counted(count, "error"), counted(len(found)-count, "warning"), counted(report.Files, "file")))
	}
	return findings(count > 0)
}

// errorsOf returns the findings that are errors.
func errorsOf(found []diag.Diagnostic) []diag.Diagnostic {
	return slices.DeleteFunc(slices.Clone(found), func(item diag.Diagnostic) bool { return item.Severity != diag.Error })
}

// mostSevere returns as many findings as are shown, errors before warnings, sorted by place again.
func mostSevere(findings []diag.Diagnostic) []diag.Diagnostic {
	severe := slices.Clone(findings)
	slices.SortStableFunc(severe, func(a, b diag.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) })
	severe = severe[:min(len(severe), maxFindings)]
	slices.SortStableFunc(severe, diag.Compare)
	return severe
}

// newDiff is `pak diff OLD NEW`.
func newDiff(streams Streams) *cobra.Command {
	var options validateOptions
	command := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Tell what a new version of a pak means for what exists",
		Long: `Tell what a new version of a pak means for the instances and bindings of an old one. Each is a directory or a file. A finding is

  an error    it breaks something: a plan, a parameter, a credential, a disk or a resource of OpenTofu is lost
  a warning   it needs an upgrade: the broker refuses updates of instances until they are upgraded, or the operator changes something first
  a notice    it is safe

The definitions are compared, and instances: one is made up with the old pak for each plan, example and case, as "pak test" does, and the
new pak says what changes in its manifest. Where both paks bundle OpenTofu and their providers, the provision templates of the old one are
really applied, those of the new one are planned, and all is destroyed. docs/format.md says what each finding means.` +
			exits("0 it is safe or needs an upgrade", "1 it breaks something (with --strict also what needs an upgrade) or a pak is wrong"),
		Example: "  git worktree add ../released v0.1.0\n  service-adapter pak diff ../released/redis redis",
		RunE: func(command *cobra.Command, args []string) error {
			return withPak(streams, args[0], func(older *brokerpak.Pak) error {
				return withPak(streams, args[1], func(newer *brokerpak.Pak) error {
					report, err := pakdiff.Compare(command.Context(), older, newer, streams.Getenv)
					if err != nil {
						return err
					}
					return options.tell(streams, report, pakdiff.Verdict(report.Diagnostics))
				})
			})
		},
	}
	options.flags(command)
	return command
}
