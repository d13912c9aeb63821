// Package journal writes log lines with their secrets masked, after the answer that the broker waits for.
package journal

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"service-adapter/internal/redact"
)

// heldLimit is how long the journal holds back a line while a command goes on.
const heldLimit = time.Second

// A Journal is an io.Writer for log lines that masks their secrets. While a command works on an answer for which the
// broker waits, between Hold and Release, the journal holds back the lines, and other tasks that mask secrets. Masking
// therefore does not delay the answer, and the secrets that a short command learns are registered before its first line
// is masked.
//
// A line is held back for about one second, heldLimit, at most. If the command takes longer, for example because it
// waits for a lock, the journal writes the lines so far in the background, so that an operator sees them and a killed
// command does not lose them. Tasks that are held back always wait for Release.
//
// New returns a Journal; the zero value cannot be used. A Journal is safe for concurrent use, except that Hold and
// Release belong to one goroutine.
type Journal struct {
	out     io.Writer
	secrets *redact.Secrets

	writing sync.Mutex // held while lines that were held back are masked and written; taken before mutex
	mutex   sync.Mutex
	held    bool
	lines   []string
	flusher *time.Timer // writes the lines; nil if none are held back
	tasks   []func(context.Context)
}

// New returns a journal that writes to out and masks the secrets of the set. Secrets that are added to the set later
// are masked from then on. With a nil set, only the values that a text itself labels as secret are masked. The journal
// holds back nothing until Hold is called.
func New(out io.Writer, secrets *redact.Secrets) *Journal {
	return &Journal{out: out, secrets: secrets}
}

// Write writes one log line, with its secrets masked, to the underlying writer. Between Hold and Release, it stores a
// copy of the line instead, which Release writes, or a timer one second after the first such line. A line without a
// line break at its end gets one, and a line that cannot be masked within redact.Limit, one second for one line or for
// all lines that are held back together, is replaced by the text redact.Withheld. Write returns the length of the line
// before masking, as io.Writer requires, and 0 with an error. The error is that of the underlying writer; a line that
// is held back never causes one.
func (j *Journal) Write(line []byte) (int, error) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if j.held {
		j.lines = append(j.lines, string(line))
		if j.flusher == nil {
			j.flusher = time.AfterFunc(heldLimit, func() { j.flush(context.Background()) })
		}
		return len(line), nil
	}
	if _, err := io.WriteString(j.out, wholeLine(j.secrets.Clean(string(line)))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// wholeLine returns text with a line break at its end. It adds the line break if text has none, because masking may
// have removed it, and otherwise returns text unchanged.
func wholeLine(text string) string { return strings.TrimSuffix(text, "\n") + "\n" }

// Hold makes the journal hold back tasks and lines until Release is called. Tasks always wait for Release. Lines do
// not: one second (heldLimit) after the first line that is held back, the journal writes the lines so far in the
// background. The lines that follow are held back again, for one second each time. The caller must call Release,
// because no other method runs the tasks.
func (j *Journal) Hold() {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.held = true
}

// After runs a task that masks secrets after the answer has been written. While the journal holds back tasks, Release
// runs it later. Otherwise no answer is awaited, and the task runs before After returns. The context that the task
// receives ends after redact.Limit, one second. It has the values of ctx or, if the task is held back, of the context
// of Release; the cancellation of these contexts does not end it.
func (j *Journal) After(ctx context.Context, task func(context.Context)) {
	j.mutex.Lock()
	held := j.held
	if held {
		j.tasks = append(j.tasks, task)
	}
	j.mutex.Unlock()
	if !held {
		WithMaskingTime(ctx, task)
	}
}

// Release ends Hold: it runs the tasks that are held back, and then those that are added meanwhile, in their order.
// Then it writes the lines that are held back, including those of the tasks; errors of the writer are ignored. From
// then on, lines are written at once and tasks run at once. The tasks receive the values of ctx, but not its
// cancellation, and each has its own time limit, redact.Limit, one second. Without Hold, Release does nothing.
func (j *Journal) Release(ctx context.Context) {
	for tasks := j.takeTasks(); len(tasks) > 0; tasks = j.takeTasks() {
		for _, task := range tasks {
			WithMaskingTime(ctx, task)
		}
	}
	j.flush(ctx)
}

// takeTasks removes the tasks that are held back from the journal and returns them in their order. If there are none,
// it returns nil, and the journal no longer holds back tasks and lines from then on; the lines that it has are left for
// flush. Otherwise the journal continues to hold back.
func (j *Journal) takeTasks() []func(context.Context) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	tasks := j.tasks
	j.tasks, j.held = nil, len(tasks) > 0
	return tasks
}

// flush writes the lines that are held back, in their order, and stops the timer that would write them. It first waits
// until another call of flush has ended. Masking the lines has one time limit for all, redact.Limit, one second. Short
// lines are masked first, so that a long line cannot prevent the others from being written. A line that cannot be
// masked in time is replaced by the text redact.Withheld.
//
// Only the values of ctx are used; its end has no effect. Errors of the writer are ignored. flush writes nothing if no
// line is held back, and it does not change whether later lines are held back.
func (j *Journal) flush(ctx context.Context) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.mutex.Lock()
	lines := j.lines
	j.lines = nil
	if j.flusher != nil {
		j.flusher.Stop()
		j.flusher = nil
	}
	j.mutex.Unlock()
	masked := map[string]string{}
	WithMaskingTime(ctx, func(ctx context.Context) {
		byLength := func(a, b string) int { return len(a) - len(b) }
		for _, line := range slices.SortedFunc(slices.Values(lines), byLength) {
			text, err := j.secrets.Mask(ctx, line)
			if err != nil {
				text = redact.Withheld
			}
			masked[line] = wholeLine(text)
		}
	})
	for _, line := range lines {
		_, _ = io.WriteString(j.out, masked[line]) // a failed write cannot be reported
	}
}

// WithMaskingTime calls a task that masks secrets with a context that ends after redact.Limit, one second. It returns
// when the task has ended, which is later if the task ignores its context. That context has the values of ctx, but its
// cancellation has no effect, because a command that was interrupted still has to write its log.
func WithMaskingTime(ctx context.Context, task func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redact.Limit)
	defer cancel()
	task(ctx)
}

// Logger returns a new logger that writes records of this level and above to the journal, in the format of
// slog.TextHandler with times in UTC. Records below the level are dropped.
func (j *Journal) Logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(groups []string, attribute slog.Attr) slog.Attr {
			if len(groups) == 0 && attribute.Key == slog.TimeKey {
				return slog.Time(slog.TimeKey, attribute.Value.Time().In(time.UTC))
			}
			return attribute
		},
	}))
}
