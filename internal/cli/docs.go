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

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/pakdoc"
	"service-adapter/internal/value"
)

// newInfo is `pak info PAK`.
func newInfo(streams Streams) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "info PAK",
		Short: "Summarise a pak",
		Long: `Summarise a pak: its name, version and platforms, what it bundles, the services it offers, and the files of a zip.` +
			exits("0 the summary was written", "1 the pak is wrong"),
		Example: "  service-adapter pak info redis-0.1.0.brokerpak --json",
		RunE: onPak(streams, func(pak *brokerpak.Pak) error {
			info, err := pakdoc.NewInfo(pak)
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
	return command
}

// docsOptions are the flags of `pak docs`.
type docsOptions struct{ format, output, check string }

// newDocs is `pak docs PAK`.
func newDocs(streams Streams) *cobra.Command {
	var options docsOptions
	command := &cobra.Command{
		Use:   "docs PAK",
		Short: "Write a pak's reference as Markdown or HTML",
		Long: `Write the reference of a pak for its users: services, plans, parameters, credentials and examples with cf commands, as Markdown
or as one HTML page that needs no network.

--check FILE compares the file with what the pak gives now and writes nothing; it fails when they differ.` +
			exits("0 the reference was written or is up to date", "1 it is stale or the pak is wrong"),
		Example: "  service-adapter pak docs redis --output docs/redis.md",
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := options.render(streams, args[0])
			switch {
			case err != nil:
				return err
			case options.check != "":
				return options.compare(args[0], text)
			case options.output != "":
				return writeFile(options.output, 0o644, func(to io.Writer) error { return write(to, text) })
			default:
				return write(streams.Stdout, text)
			}
		},
	}
	command.Flags().StringVar(&options.format, "format", "", "markdown or html (default: by the ending of the file, else markdown)")
	command.Flags().StringVar(&options.output, "output", "", "write to this file")
	command.Flags().StringVar(&options.check, "check", "", "fail unless this file is up to date")
	return command
}

// render makes the reference in the format that the flags ask for.
func (o docsOptions) render(streams Streams, path string) (text string, err error) {
	if o.output != "" && o.check != "" {
		return "", usageError{errors.New("--output and --check exclude each other")}
	}
	render := map[string]func(*brokerpak.Pak) (string, error){"markdown": pakdoc.Markdown, "html": pakdoc.HTML}
	format := cmp.Or(o.format, "markdown")
	if o.format == "" && slices.Contains([]string{".html", ".htm"}, strings.ToLower(filepath.Ext(o.output+o.check))) {
		format = "html"
	}
	if err := oneOf("format", format, value.Keys(render)); err != nil {
		return "", err
	}
	err = withPak(streams, path, func(pak *brokerpak.Pak) (err error) {
		text, err = render[format](pak)
		return err
	})
	return text, err
}

// compare refuses a file that is not what the pak gives now.
func (o docsOptions) compare(pak, current string) error {
	written, err := os.ReadFile(o.check)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the reference: %w", err)
	}
	reason := "it does not exist"
	if err == nil {
		reason = pakdoc.Stale(string(written), current)
	}
	if reason == "" {
		return nil
	}
	summary, difference, _ := strings.Cut(reason, "\n")
	message := fmt.Sprintf("%s is stale: %s; run: service-adapter pak docs %s --output %s", o.check, summary, pak, o.check)
	if o.format != "" {
		message += " --format " + o.format
	}
	if difference != "" {
		message += "\n" + difference
	}
	return &fault.UserError{Message: message}
}

// newCatalog is `pak catalog PAK`.
func newCatalog(streams Streams) *cobra.Command {
	var name string
	var errands bool
	command := &cobra.Command{
		Use:   "catalog PAK",
		Short: "Print the service catalog for the on-demand broker's manifest",
		Long: `Print what an operator puts into the manifest of the on-demand broker for a service: the properties of its job broker, with
the service_catalog made from the pak. What only the operator knows begins with REPLACE_ME_.

--errands is for services whose provision template takes longer than a request may: every plan has the lifecycle errands apply-instance
and destroy-instance, and service_deployment has the release of their jobs. Where the BOSH manifest needs outputs of the template, it has
destroy-instance alone, and says what needs them. docs/deploying.md says what else the errands need.` +
			exits("0 the catalog was written", "1 the pak is wrong, has nothing to deploy, or with --errands no provision template"),
		Example: "  service-adapter pak catalog redis-0.1.0.brokerpak\n  service-adapter pak catalog --errands database-0.1.0.brokerpak",
		RunE: onPak(streams, func(pak *brokerpak.Pak) error {
			service, err := chosenService(pak, name)
			if err != nil {
				return err
			}
			render := pakdoc.Catalog
			if errands {
				render = pakdoc.CatalogWithErrands
			}
			text, err := render(service)
			if err != nil {
				return err
			}
			return write(streams.Stdout, text)
		}),
	}
	command.Flags().StringVar(&name, "service", "", "the service, where the pak has several: a broker serves one")
	command.Flags().BoolVar(&errands, "errands", false, "let errands apply and destroy the provision template")
	return command
}

// chosenService finds the service that is meant: the named one, or the only one.
func chosenService(pak *brokerpak.Pak, name string) (*brokerpak.Service, error) {
	names := pak.ServiceNames()
	switch {
	case name != "":
		return pak.Service(name), oneOf("service", name, names)
	case len(pak.Services) != 1:
		return nil, usageError{fmt.Errorf("which service? set --service; the pak has: %s", diag.Names(names))}
	default:
		return pak.Services[0], nil
	}
}

// newEvaluate is `pak evaluate PATH`.
func newEvaluate(streams Streams) *cobra.Command {
	var question adapter.Question
	var request, instance string
	var explain bool
	command := &cobra.Command{
		Use:   "evaluate PATH --action ACTION --request FILE",
		Short: "Tell which variables a template would receive, and why",
		Long: `Print, as JSON, the variables that a template would receive for a request, by the code that the adapter itself uses. --explain
adds where each value came from: the layer, and the place and text of a default or computed input.

The request is the broker's JSON body; only "parameters" is needed. For bind and unbind, --instance is a YAML file that tells about
the deployed instance: outputs (instance.details), vms, dns_addresses, secrets, manifest; for update its manifest.
The operator's defaults are read from the environment, as in GSB_PROVISION_DEFAULTS.` +
			exits("0 printed", "1 the request is refused (the user's sentence is on standard error)"),
		Example: `  echo '{"parameters": {"maxclients": 500}}' | service-adapter pak evaluate redis --plan small --action provision --request - --explain`,
		RunE: func(_ *cobra.Command, args []string) error {
			if !slices.Contains(adapter.Actions(), question.Action) {
				return usageError{fmt.Errorf("--action must be one of %s", strings.Join(adapter.Actions(), ", "))}
			}
			if request == "" {
				return usageError{errors.New("--request is required; - is standard input")}
			}
			var err, instanceErr error
			question.Pak = args[0]
			question.Request, err = readFile(streams, request)
			question.Instance, instanceErr = readFile(streams, instance)
			if err := cmp.Or(err, instanceErr); err != nil {
				return err
			}
			variables, err := adapter.Evaluate(streams.Invocation, question)
			if err != nil {
				return err
			}
			if explain {
				return writeJSON(streams.Stdout, variables)
			}
			values := map[string]any{}
			for name, variable := range variables {
				values[name] = variable.Value
			}
			return writeJSON(streams.Stdout, values)
		},
	}
	command.Flags().StringVar(&question.Service, "service", "", "the service; not needed where the pak has one")
	command.Flags().StringVar(&question.Plan, "plan", "", "the plan")
	command.Flags().StringVar(&question.Action, "action", "", strings.Join(adapter.Actions(), ", "))
	command.Flags().StringVar(&request, "request", "", "a file with the request's JSON body, or - for standard input")
	command.Flags().StringVar(&instance, "instance", "", "a YAML file about the deployed instance")
	command.Flags().BoolVar(&explain, "explain", false, "add where each value came from")
	return command
}

// readFile reads a file, or standard input for "-"; no name is an empty text.
func readFile(streams Streams, name string) (string, error) {
	switch name {
	case "":
		return "", nil
	case "-":
		text, err := io.ReadAll(streams.Stdin)
		return string(text), err
	default:
		text, err := os.ReadFile(name) //nolint:gosec // the user names the file
		return string(text), err
	}
}
