package pakdoc

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"service-adapter/brokerpak"
)

// pageTemplate is the page with its style. It needs no script and loads nothing, which its content security policy enforces.
//
//go:embed page.html.tmpl
var pageTemplate string

// HTML returns the reference of a pak for its users as one page that needs nothing else: no script, no font, no image but those
// in the pak's definitions. Texts of the pak never become markup. The same pak gives the same bytes.
func HTML(pak *brokerpak.Pak) (string, error) {
	functions := template.FuncMap{
		// image passes a data URL, of which newPage has checked the type, where html/template would refuse any.
		"image": func(url string) template.URL { return template.URL(url) }, //nolint:gosec // checked
		"flat":  oneLine,
	}
	parsed, err := template.New("page").Funcs(functions).Parse(pageTemplate)
	if err != nil {
		return "", fmt.Errorf("reading the template of the page: %w", err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, newPage(pak)); err != nil {
		return "", fmt.Errorf("making the page: %w", err)
	}
	return out.String(), nil
}
