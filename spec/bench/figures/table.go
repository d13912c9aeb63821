package figures

import (
	"fmt"
	"strings"
)

// tableHead is the head of each table after the name of its section.
const tableHead = " | median | compared with | its median | ratio | goal | memory | its memory |\n" +
	"|---|--:|---|--:|--:|---|--:|--:|\n"

// Table renders figures as Markdown, with one table for each section.
func Table(list []Figure) string {
	var text strings.Builder
	section := ""
	for _, f := range list {
		if f.Section != section {
			if section != "" {
				text.WriteString("\n")
			}
			section = f.Section
			text.WriteString("| " + section + tableHead)
		}
		baseline := Measure{}
		if f.Baseline != nil {
			baseline = *f.Baseline
		}
		ratio := ""
		if f.Ratio() != 0 {
			ratio = fmt.Sprintf("%.2f", f.Ratio())
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s | %s | %s | %s |\n",
			f.Name, f.value(f.Median), f.Against, f.value(baseline.Median), ratio, f.goal(), f.memory(),
			baseline.memory())
	}
	return text.String()
}

// value returns a number with the unit of the figure.
func (f Figure) value(v float64) string {
	switch {
	case v == 0:
		return ""
	case f.Unit != "":
		return fmt.Sprintf("%.0f %s", v, f.Unit)
	case v < 10:
		return fmt.Sprintf("%.1f ms", v)
	case v < 10_000:
		return fmt.Sprintf("%.0f ms", v)
	default:
		return fmt.Sprintf("%.1f s", v/1000)
	}
}

// memory returns the program's own memory and, if it is larger, that of the largest child process. It returns "" if the
// memory was not measured.
func (m Measure) memory() string {
	switch {
	case m.Memory == 0:
		return ""
	case m.Largest > m.Memory:
		return fmt.Sprintf("%.0f MB, child %.0f MB", m.Memory, m.Largest)
	default:
		return fmt.Sprintf("%.0f MB", m.Memory)
	}
}
