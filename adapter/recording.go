package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/value"
)

// Bounds of the recordings: how many are kept, and how large in bytes one may be.
const (
	maxRecordings = 200
	maxRecording  = 8 << 20
)

// recording is one recorded request: the broker's input with secrets replaced.
type recording struct {
	Time    string                     `json:"time"`
	Command string                     `json:"command"`
	Input   serviceadapter.InputParams `json:"input"`
}

// recorder writes what a command was asked.
type recorder struct{ *session }

// record keeps a request where the operator has asked for it. A failure is logged and changes nothing else.
func (s recorder) record(params serviceadapter.InputParams) {
	if s.config.RecordRequests == "" {
		return
	}
	if err := s.write(params); err != nil {
		s.logger.Warn("recording the request", "error", err)
	}
}

func (s recorder) write(params serviceadapter.InputParams) error {
	now := time.Now().UTC()
	text, err := json.MarshalIndent(recording{Time: now.Format(time.RFC3339Nano), Command: s.command, Input: params}, "", "  ")
	if err != nil {
		return err
	}
	masked := s.secrets.Clean(string(text))
	if len(masked) > maxRecording {
		return fmt.Errorf("the request has %d bytes; only up to %d are recorded", len(masked), maxRecording)
	}
	if err := os.MkdirAll(s.config.RecordRequests, 0o700); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%d.json", now.Format("20060102T150405.000000000Z"), s.command, os.Getpid())
	if err := os.WriteFile(filepath.Join(s.config.RecordRequests, name), []byte(masked), 0o600); err != nil {
		return err
	}
	return dropOldRecordings(s.config.RecordRequests)
}

// dropOldRecordings keeps the newest; names begin with the time.
func dropOldRecordings(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*Z-*.json"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	var failed []error
	for _, file := range files[:max(0, len(files)-maxRecordings)] {
		failed = append(failed, os.Remove(file))
	}
	return errors.Join(failed...)
}

// Replay plays a recorded request again without side effects: manifests, dashboards and schemas are made again; for a binding the
// variables are printed that its template would get. It returns the exit code of the command.
func Replay(ctx context.Context, invocation Invocation, file string) (int, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return 0, fmt.Errorf("reading the recording: %w", err)
	}
	var recorded recording
	if err := json.Unmarshal(text, &recorded); err != nil || !slices.Contains(Commands(), recorded.Command) {
		return 0, fmt.Errorf("reading the recording %s: record_requests did not make it", file)
	}
	input, err := json.Marshal(recorded.Input)
	if err != nil {
		return 0, err
	}
	again := Invocation{
		Args: []string{"service-adapter", recorded.Command}, Stdin: strings.NewReader(string(input)),
		Stdout: invocation.Stdout, Stderr: invocation.Stderr,
		Getenv: over(invocation.Getenv, map[string]string{envPrefix + "RECORD_REQUESTS": "''"}), // a replay is not recorded
	}
	if recorded.Command == createBinding || recorded.Command == deleteBinding {
		s := newSession(again, recorded.Command)
		return s.answer(ctx, func(context.Context) ([]byte, error) { return recorder{s}.bindVariables(recorded) }), nil
	}
	return Run(ctx, again), nil
}

// bindVariables are the variables of a recorded binding's template, as the product of a command.
func (s recorder) bindVariables(recorded recording) ([]byte, error) {
	request, size, err := decodeBindInput(recorded.Command, recorded.Input)
	if err != nil {
		return nil, err
	}
	if err := s.completeBind(request, size); err != nil {
		return nil, err
	}
	scope, err := request.Resolve()
	if err != nil {
		return nil, err
	}
	return append(value.MustJSON(scope.Values), '\n'), nil
}
