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
	"service-adapter/internal/fault"
	"service-adapter/internal/pakdoc"
	"service-adapter/internal/value"
)

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
				return writeFile(options.output, 0o644, func(to io.Writer) error { return write(Streams{Out: to}, text) })
			default:
				return write(streams, text)
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
