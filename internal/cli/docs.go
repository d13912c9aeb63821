package cli

import (
	"bufio"
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
)

const docsHelp = `Write the reference of a pak for its users: services, plans, parameters, credentials and examples with cf commands, as Markdown
or as one HTML page that needs no network.

--check FILE compares the file with what the pak gives now and writes nothing; it fails when they differ.

EXIT STATUS
  0 the reference was written or is up to date, 1 it is stale or the pak is wrong, 2 wrong usage, 3 anything else`

// docsOptions are the flags of `pak docs`.
type docsOptions struct{ format, output, check string }

// newDocs is `pak docs PAK`.
func newDocs(streams Streams) *cobra.Command {
	var options docsOptions
	command := &cobra.Command{
		Use:     "docs PAK",
		Short:   "Write a pak's reference as Markdown or HTML",
		Long:    docsHelp,
		Example: "  service-adapter pak docs redis --output docs/redis.md",
		Args:    exactly("PAK"),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := options.render(streams, args[0])
			switch {
			case err != nil:
				return err
			case options.check != "":
				return options.compare(args[0], text)
			case options.output != "":
				return writeFile(options.output, 0o644, func(to io.Writer) error {
					_, err := io.WriteString(to, text)
					return err
				})
			}
			if _, err := io.WriteString(streams.Out, text); err != nil {
				return fmt.Errorf("writing the reference: %w", err)
			}
			return nil
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
	format := o.format
	if format == "" {
		format = "markdown"
		if slices.Contains([]string{".html", ".htm"}, strings.ToLower(filepath.Ext(o.output+o.check))) {
			format = "html"
		}
	}
	if format != "markdown" && format != "html" {
		return "", usageError{fmt.Errorf("--format %q must be markdown or html", format)}
	}
	render := pakdoc.Markdown
	if format == "html" {
		render = pakdoc.HTML
	}
	err = withPak(streams, path, func(pak *brokerpak.Pak) (err error) {
		text, err = render(pak)
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

// writeFile replaces a file as a whole, so that an interrupted run leaves the old one.
func writeFile(path string, mode fs.FileMode, write func(to io.Writer) error) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already after the rename
	buffered := bufio.NewWriter(temporary)
	if err = write(buffered); err == nil {
		err = errors.Join(buffered.Flush(), temporary.Chmod(mode), temporary.Sync())
	}
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
