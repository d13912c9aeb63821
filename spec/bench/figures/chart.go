package figures

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The chart's measures, in pixels.
const (
	chartWidth = 900
	chartLeft  = 345 // where bars begin
	chartRight = 60  // room for the value beside the longest bar
	chartHead  = 94
	chartRow   = 42
	chartBar   = 15
	chartFoot  = 16
)

// The colours stand in classes, which a page in dark mode gives others. The background is drawn, because an image does not know the
// colour of the page around it.
const chartStyle = `<style>
text { fill: #1f2328; font-family: sans-serif; font-size: 13px }
.title { font-size: 15px; font-weight: bold }
.small { fill: #59636e; font-size: 11px }
.page { fill: #ffffff }
.grid { stroke: #d1d9e0 }
.ours { fill: #1f6f8b }
.bare { fill: #b3b9c0 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 }
.small { fill: #9198a1 }
.page { fill: #0d1117 }
.grid { stroke: #3d444d }
.ours { fill: #4fb3d4 }
.bare { fill: #656c76 }
}
</style>
`

// Chart draws the figures of one section as SVG: two bars for each thing, its own and what it is compared with first. The values are
// milliseconds; what names the thing itself and what it is compared with in the legend.
func Chart(list []Figure, section, title, ours, bare string) string {
	var rows []Figure
	longest := 1.0
	for _, f := range list {
		if f.Section != section || f.Baseline == nil || len(rows) > 0 && rows[len(rows)-1].Name == f.Name {
			continue
		}
		rows = append(rows, f)
		longest = max(longest, f.Median, f.Baseline.Median)
	}
	step := tick(longest)
	most := math.Ceil(longest/step) * step
	scale := func(v float64) float64 { return v / most * (chartWidth - chartLeft - chartRight) }
	bottom := chartHead + chartRow*len(rows)
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">`+"\n<title>%s</title>\n",
		chartWidth, bottom+chartFoot, chartWidth, bottom+chartFoot, html.EscapeString(title))
	svg.WriteString(chartStyle + `<rect class="page" width="100%" height="100%"/>` + "\n")
	fmt.Fprintf(&svg, `<text class="title" x="12" y="26">%s</text>`+"\n", html.EscapeString(title))
	legend(&svg, ours, bare)
	for v := 0.0; v <= most; v += step {
		x := chartLeft + scale(v)
		fmt.Fprintf(&svg, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text class="small" x="%.1f" y="%d" text-anchor="middle">%s ms</text>`+"\n",
			x, x, chartHead-10, bottom, x, chartHead-16, number(v))
	}
	for n, f := range rows {
		top := chartHead + n*chartRow
		fmt.Fprintf(&svg, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", chartLeft-8, top+chartBar+5, html.EscapeString(f.Name))
		bar(&svg, "ours", top, scale(f.Median), f.Median)
		bar(&svg, "bare", top+chartBar+1, scale(f.Baseline.Median), f.Baseline.Median)
	}
	svg.WriteString("</svg>\n")
	return svg.String()
}

func legend(svg *strings.Builder, ours, bare string) {
	x := 12
	for _, entry := range [][2]string{{"ours", ours}, {"bare", bare}} {
		fmt.Fprintf(svg, `<rect class="%s" x="%d" y="42" width="12" height="12"/><text x="%d" y="53">%s</text>`+"\n",
			entry[0], x, x+18, html.EscapeString(entry[1]))
		x += 150
	}
}

func bar(svg *strings.Builder, class string, top int, width, value float64) {
	fmt.Fprintf(svg, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/><text class="small" x="%.1f" y="%d">%s</text>`+"\n",
		class, chartLeft, top, width, chartBar, chartLeft+width+5, top+chartBar-3, number(value))
}

func number(v float64) string { return fmt.Sprintf("%.0f", v) }

// tick is the distance of the axis's marks: 1, 2 or 5 times a power of ten, so that there are four to ten of them.
func tick(longest float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(longest))) / 10
	for _, factor := range []float64{1, 2, 5, 10} {
		if longest/(step*factor) <= 10 {
			return step * factor
		}
	}
	return step * 10
}
