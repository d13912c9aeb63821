package main

import (
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// The lines of docs/performance.md between which the figures stand.
const (
	begin = "<!-- figures: begin, written by `make bench` -->"
	end   = "<!-- figures: end -->"
)

// report prints the table and, after a thorough run of all sections, writes it into the documentation, with the chart.
func report(root, results string, known map[string][]Figure, quick bool) error {
	var figures []Figure
	complete := true
	for _, s := range sections() {
		found, ok := known[s.name]
		complete = complete && ok
		figures = append(figures, found...)
	}
	text := table(figures)
	fmt.Print(text)
	if quick || !complete {
		return nil
	}
	docs := filepath.Join(root, "docs")
	page, err := os.ReadFile(filepath.Join(docs, "performance.md")) //nolint:gosec // in the repository
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(page), begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("docs/performance.md has no place for the figures: %q and %q", begin, end)
	}
	content, err := os.ReadFile(results) //nolint:gosec // the benchmark's own file
	if err != nil {
		return err
	}
	machine := fmt.Sprintf("Measured on %d cores, %s/%s, with %s.\n\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	return errors.Join(writeAll(docs, map[string]string{
		"performance.md": head + begin + "\n" + machine + text + end + tail, "performance.svg": chart(figures), "performance.json": string(content),
	}))
}

// table renders figures as Markdown.
func table(figures []Figure) string {
	var text strings.Builder
	section := ""
	for _, f := range figures {
		if f.Section != section {
			if section != "" {
				text.WriteString("\n")
			}
			section = f.Section
			text.WriteString("| " + section + " | median | compared with | its median | ratio | memory |\n|---|--:|---|--:|--:|--:|\n")
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s |\n", f.Name, f.value(f.Median), f.Against, f.value(f.Baseline), ratio(f), memory(f))
	}
	return text.String()
}

func (f Figure) value(v float64) string {
	switch {
	case v == 0:
		return ""
	case f.Unit != "":
		return fmt.Sprintf("%.0f %s", v, f.Unit)
	case v < 10:
		return fmt.Sprintf("%.1f ms", v)
	default:
		return fmt.Sprintf("%.0f ms", v)
	}
}

func ratio(f Figure) string {
	if f.Ratio() == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", f.Ratio())
}

func memory(f Figure) string {
	switch {
	case f.Memory == 0:
		return ""
	case f.BaselineMemory == 0:
		return fmt.Sprintf("%.0f MB", f.Memory)
	default:
		return fmt.Sprintf("%.0f MB to %.0f MB", f.Memory, f.BaselineMemory)
	}
}

// The chart's measures, in pixels.
const (
	chartWidth = 900
	chartLabel = 330 // where bars begin
	chartRow   = 44
	chartBar   = 15
)

// chart draws what a binding takes beside OpenTofu alone: two bars for each figure of the section "bindings".
func chart(figures []Figure) string {
	var bars []Figure
	longest := 1.0
	for _, f := range figures {
		if f.Section == "bindings" {
			bars = append(bars, f)
			longest = max(longest, f.Median, f.Baseline)
		}
	}
	height := 50 + chartRow*len(bars)
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		chartWidth, height, chartWidth, height)
	svg.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	fmt.Fprintf(&svg, `<text x="12" y="24" font-size="15">Milliseconds: <tspan fill="#1f6f8b">service-adapter</tspan> and `+
		`<tspan fill="#8a8a8a">OpenTofu alone</tspan></text>`+"\n")
	scale := func(v float64) float64 { return v / longest * (chartWidth - chartLabel - 70) }
	for n, f := range bars {
		y := 44 + n*chartRow
		fmt.Fprintf(&svg, `<text x="12" y="%d">%s</text>`+"\n", y+chartBar+3, html.EscapeString(f.Name))
		for i, bar := range []struct {
			value float64
			color string
		}{{f.Median, "#1f6f8b"}, {f.Baseline, "#c4c4c4"}} {
			top := y + i*(chartBar+1)
			fmt.Fprintf(&svg, `<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/><text x="%.1f" y="%d" font-size="11">%.0f</text>`+"\n",
				chartLabel, top, scale(bar.value), chartBar, bar.color, chartLabel+scale(bar.value)+5, top+chartBar-3, bar.value)
		}
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}
