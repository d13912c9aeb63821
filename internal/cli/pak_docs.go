package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/doc"
	"service-adapter/internal/fault"
	"service-adapter/internal/outfile"
	"service-adapter/internal/value"
)

// newInfo returns the command `pak info PAK`, which prints a summary of a pak as text, with --json as JSON, or with
// --bom the bill of materials in the pak. PAK is the path of a directory or a zip file. The command fails if --json and
// --bom are both set (a usageError), if the pak cannot be read or is invalid, if a plan of the environment variables
// GSB_SERVICE_<NAME>_PLANS is invalid, if the summary cannot be generated, if --bom is set and the pak has no bill of
// materials, or if the output cannot be written.
func newInfo(streams Streams) *cobra.Command {
	var asJSON, asBill bool
	command := &cobra.Command{
		Use:   "info PAK",
		Short: "Summarise a pak",
		Long: `Summarise a pak: its name, version and platforms, the binaries that it bundles, the services that it
offers, and the files of a zip.

--bom prints the bill of materials that "pak build" wrote into the pak, in the format CycloneDX (JSON): the executables
with their versions, digests and origins, and the Go modules in them. docs/supply-chain.md describes it.` +
			exitStatus("0 the summary or the bill was written", "1 the pak is invalid, or has no bill of materials"),
		Example: "  service-adapter pak info redis-0.1.0.brokerpak --json\n" +
			"  service-adapter pak info redis-0.1.0.brokerpak --bom",
		PreRunE: func(*cobra.Command, []string) error { return excludeFormats(asJSON, asBill) },
		RunE: runOnPak(streams, func(pak *brokerpak.Pak) error {
			if asBill {
				return writePakBill(streams, pak)
			}
			info, err := doc.NewInfo(pak)
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(streams.Stdout, info)
			}
			return info.WriteText(streams.Stdout)
		}),
	}
	jsonFlag(command, &asJSON)
	billFlag(command, &asBill)
	return command
}

// A docsOptions holds the flags of `pak docs`. At most one of output and check may be set. The zero value means that
// the reference is written to standard output as Markdown.
type docsOptions struct {
	// format is markdown or html; "" means that of the file's extension, and markdown for standard output.
	format string
	// output is the file to write, "" means standard output. check is the file to compare instead of writing one.
	output, check string
}

// newDocs returns the command `pak docs PAK`, which writes the reference of a pak for its users, as Markdown or HTML,
// to standard output, or with --output to a file, which it replaces unless it is a device or a pipe. With --check
// FILE it writes no reference, and exits with exitFindings if FILE differs from the reference or does not exist. The
// command also fails for an invalid command line (a usageError), if the pak cannot be read or is invalid, if a plan
// of the environment variables GSB_SERVICE_<NAME>_PLANS is invalid, if its reference cannot be generated, if FILE
// cannot be read, or if the reference cannot be written.
func newDocs(streams Streams) *cobra.Command {
	var options docsOptions
	command := &cobra.Command{
		Use:   "docs PAK",
		Short: "Write a pak's reference as Markdown or HTML",
		Long: `Write the reference of a pak for its users: services, plans, parameters, credentials and examples with cf
commands, as Markdown or as one HTML page that needs no network.

--check FILE compares the file with the reference of the current pak and writes nothing. The command fails if they
differ.` +
			exitStatus("0 the reference was written or is up to date",
				"1 the file is out of date or the pak is invalid"),
		Example: "  service-adapter pak docs redis --output docs/redis.md",
		PreRunE: func(command *cobra.Command, _ []string) error {
			// The name may be that of an unset shell variable. Without this check, the command would compare nothing.
			if options.check == "" && command.Flags().Changed("check") {
				return usageError{errors.New("--check must name a file")}
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			text, err := options.render(streams, args[0])
			switch {
			case err != nil:
				return err
			case options.check != "":
				return options.checkUpToDate(args[0], text)
			case options.output != "":
				return outfile.Write(command.Context(), options.output, 0o644, func(to io.Writer) error {
					return write(to, text)
				})
			default:
				return write(streams.Stdout, text)
			}
		},
	}
	command.Flags().StringVar(&options.format, "format", "",
		"markdown or html (default: by the extension of the file, else markdown)")
	command.Flags().StringVar(&options.output, "output", "", "write to this file")
	command.Flags().StringVar(&options.check, "check", "", "fail unless this file is up to date")
	return command
}

// render returns the reference of the pak at path as text. The format is --format, which is markdown or html. Without
// --format, it is html if the file of --output or --check ends with .html or .htm, and otherwise markdown. render
// returns a usageError if --output and --check are both set or the format is unknown. It returns another error if the
// pak cannot be opened, is invalid (a diag.Errors), has invalid plans in the environment variables
// GSB_SERVICE_<NAME>_PLANS, or if its reference cannot be generated. It neither reads nor writes the files of the
// flags.
func (o docsOptions) render(streams Streams, path string) (text string, err error) {
	if o.output != "" && o.check != "" {
		return "", usageError{errors.New("--output and --check exclude each other")}
	}
	render := map[string]func(*brokerpak.Pak) (string, error){"markdown": doc.Markdown, "html": doc.HTML}
	format := cmp.Or(o.format, "markdown")
	if o.format == "" && slices.Contains([]string{".html", ".htm"}, strings.ToLower(filepath.Ext(o.output+o.check))) {
		format = "html"
	}
	if err := checkOneOf("format", format, value.Keys(render)); err != nil {
		return "", err
	}
	err = withPak(streams, path, func(pak *brokerpak.Pak) (err error) {
		text, err = render[format](pak)
		return err
	})
	return text, err
}

// checkUpToDate compares the file of --check with current, the text of the current reference, and returns nil if they
// are equal, where a CRLF in the file equals an LF. It returns a *fault.UserError if the file differs or does not
// exist, and another error if it cannot be read. The UserError describes the first difference and the command that
// updates the file. pak is the path of the pak; it is used only in that command. No file is changed.
func (o docsOptions) checkUpToDate(pak, current string) error {
	written, err := os.ReadFile(o.check)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the reference: %w", err)
	}
	reason := "it does not exist"
	if err == nil {
		reason = doc.Stale(string(written), current)
	}
	if reason == "" {
		return nil
	}
	summary, difference, _ := strings.Cut(reason, "\n")
	message := fmt.Sprintf("%s is stale: %s; run: service-adapter pak docs %s --output %s",
		o.check, summary, pak, o.check)
	if o.format != "" {
		message += " --format " + o.format
	}
	if difference != "" {
		message += "\n" + difference
	}
	return &fault.UserError{Message: message}
}

// newCatalog returns the command `pak catalog PAK`, which prints the part of the on-demand broker's manifest that
// describes one service of a pak, as YAML. Values that only the operator knows are placeholders that begin with
// REPLACE_ME_. With --release, jobs are assigned to the BOSH releases that contain them. With --errands, the plans
// get the lifecycle errands apply-instance and destroy-instance, or only the latter if the BOSH manifest, its configs
// or an expression that is evaluated before the deployment needs outputs of the provision template.
//
// The command fails if the pak cannot be read or is invalid, if a plan of the environment variables
// GSB_SERVICE_<NAME>_PLANS is invalid, if the service of --service does not exist or the pak does not have exactly one
// service without this flag (usageErrors), if a release cannot be read, if the service has neither a BOSH manifest nor
// a provision template, or if the output cannot be generated or written. With --errands it also fails if the service
// has no provision template, or has an instance group or a job with the name of an errand.
func newCatalog(streams Streams) *cobra.Command {
	var name string
	var errands bool
	var releases releaseFlags
	command := &cobra.Command{
		Use:   "catalog PAK [--release PATH]",
		Short: "Print the service catalog for the on-demand broker's manifest",
		Long: `Print the properties of the job broker that an operator copies into the manifest of the on-demand broker
for a service, with a service_catalog that is generated from the pak. Values that only the operator knows begin with
REPLACE_ME_. The catalog has maintenance_info with the pak's version, by which Cloud Foundry offers users an upgrade of
their instances; docs/operations/upgrade-when-users-want.md has the order of steps.

service_deployment lists the jobs that manifests of the service may contain. With --release, which can be repeated, they
are assigned to the releases that have them; otherwise the operator has to name the releases.

--errands is for services whose provision template takes longer than a request may take. It adds the lifecycle errands
apply-instance and destroy-instance to every plan, and the release of their jobs to service_deployment. If the BOSH
manifest needs outputs of the template, only destroy-instance is added, with a comment that says which part of the
manifest needs them. docs/deploying.md describes the other requirements of the errands.` +
			exitStatus("0 the catalog was written",
				"1 the pak is invalid, has nothing to deploy, or with --errands has no provision template"),
		Example: "  service-adapter pak catalog redis-0.1.0.brokerpak --release redis-4.1.0.tgz\n" +
			"  service-adapter pak catalog --errands database-0.1.0.brokerpak",
		RunE: func(command *cobra.Command, args []string) error {
			return withPak(streams, args[0], func(pak *brokerpak.Pak) error {
				service, err := selectService(pak, name)
				if err != nil {
					return err
				}
				opened, err := releases.open(command.Context())
				if err != nil {
					return err
				}
				render := doc.Catalog
				if errands {
					render = doc.CatalogWithErrands
				}
				text, err := render(&pak.Manifest, service, opened...)
				if err != nil {
					return err
				}
				return write(streams.Stdout, text)
			})
		},
	}
	command.Flags().StringVar(&name, "service", "", "the service, if the pak has several; a broker serves one")
	command.Flags().BoolVar(&errands, "errands", false, "add errands that apply and destroy the provision template")
	releases.add(command, "assign jobs to")
	return command
}
