package cli

import "fmt"

// progress tells on standard error how far something has got: in place where that is a terminal, else only of what is long.
type progress struct {
	streams Streams
	doing   string
	shown   int // the percentage that a terminal shows, -1 for nothing
}

// Where it is no terminal, longest items are worked on without a word, and then a line comes with each step of them.
const (
	longest = 1000
	step    = 500
)

func newProgress(streams Streams, doing string) *progress {
	return &progress{streams: streams, doing: doing, shown: -1}
}

// report is called after each item, by one at a time.
func (p *progress) report(done, total int) {
	const whole = 100
	if !p.streams.ErrTerminal {
		if total > longest && done%step == 0 {
			say(p.streams, fmt.Sprintf("%s: %d of %d", p.doing, done, total))
		}
		return
	}
	if percent := done * whole / total; percent != p.shown {
		p.shown = percent
		_, _ = fmt.Fprintf(p.streams.Err, "\r%s: %d of %d", p.doing, done, total) // there is nowhere else to report it
	}
}

// end takes what a terminal shows away.
func (p *progress) end() {
	if p.shown >= 0 {
		_, _ = fmt.Fprint(p.streams.Err, "\r\x1b[K") // there is nowhere else to report it
	}
	p.shown = -1
}
