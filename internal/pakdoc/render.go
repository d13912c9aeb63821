package pakdoc

import (
	_ "embed"
	"fmt"
	htmltemplate "html/template"
	"io"
	"strings"
	"text/template"

	"service-adapter/brokerpak"
)

// The templates of the two formats. The HTML page needs no script and loads nothing, which its content security policy enforces.
var (
	//go:embed page.html.tmpl
	htmlText string
	//go:embed page.md.tmpl
	markdownText string
)

// HTML returns the reference of a pak for its users as one page that needs nothing else: no script, no font, no image but those
// in the pak's definitions. Texts of the pak never become markup. The same pak gives the same bytes.
func HTML(pak *brokerpak.Pak) (string, error) {
	functions := htmltemplate.FuncMap{
		// image passes a data URL, of which newPage has checked the type, where html/template would refuse any.
		"image": func(url string) htmltemplate.URL { return htmltemplate.URL(url) }, //nolint:gosec // checked
		"flat":  oneLine,
	}
	parsed, err := htmltemplate.New("page").Funcs(functions).Parse(htmlText)
	if err != nil {
		return "", fmt.Errorf("reading the template of the page: %w", err)
	}
	return render(pak, parsed)
}

// Markdown returns the reference of a pak for its users, as Markdown that GitHub and others render. Texts of the pak never
// become markup. The same pak gives the same bytes.
func Markdown(pak *brokerpak.Pak) (string, error) {
	functions := template.FuncMap{
		"angled": angled, "code": codeSpan, "codes": codes, "escape": escape, "fence": fence, "spans": spans, "table": table,
	}
	parsed, err := template.New("page").Funcs(functions).Parse(markdownText)
	if err != nil {
		return "", fmt.Errorf("reading the template of the page: %w", err)
	}
	return render(pak, parsed)
}

// render fills in the template of one of the formats.
func render(pak *brokerpak.Pak, parsed interface{ Execute(io.Writer, any) error }) (string, error) {
	var out strings.Builder
	if err := parsed.Execute(&out, newPage(pak)); err != nil {
		return "", fmt.Errorf("making the page: %w", err)
	}
	return strings.TrimRight(out.String(), "\n") + "\n", nil
}
