package backends_test

import (
	"context"
	"strings"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// processesFor returns the processes that a command started: for each OpenTofu its first two arguments that are not
// options, and "provider" for each provider.
func (m *machine) processesFor(command func() answer) []string {
	GinkgoHelper()
	recorded := m.spy()
	command()
	names := []string{}
	for line := range strings.Lines(recorded()) {
		line = strings.TrimSpace(line)
		arguments, ofTofu := strings.CutPrefix(line, "arguments: ")
		switch {
		case ofTofu:
			words := strings.Fields(arguments)
			if len(words) > 1 && !strings.HasPrefix(words[1], "-") {
				words[0] += " " + words[1]
			}
			names = append(names, words[0])
		case line == "provider":
			names = append(names, line)
		}
	}
	return names
}

// A cost contains the processes that each kind of command starts on a backend, once for each start.
type cost struct {
	bind, failing, unbind, absent []string
}

var _ = Describe("the number of processes", func() {
	// On pg, the adapter itself reads, reserves, takes over and removes states. On s3, OpenTofu does this.
	costs := map[string]cost{
		pg: {
			bind:    []string{"provider", "apply"},
			failing: []string{"provider", "apply", "provider", "destroy"},
			unbind:  []string{"provider", "destroy"},
			absent:  []string{},
		},
		s3: {
			bind: []string{"apply", "provider", "apply", "state pull"},
			failing: []string{
				"apply", "provider", "apply", "state pull", "state push", "provider", "destroy", "state pull",
				"state push", "workspace delete",
			},
			unbind: []string{"state pull", "provider", "destroy", "state pull", "state push", "workspace delete"},
			absent: []string{"state pull"},
		},
	}
	exits := func(code int, command func() answer) func() answer {
		return func() answer {
			GinkgoHelper()
			got := command()
			Expect(got.Exit).To(Equal(code), got.Stderr)
			return got
		}
	}

	for _, kind := range []string{pg, s3} {
		cost := costs[kind]
		DescribeTable("of a binding is minimal: "+kind, func(ctx context.Context, encrypted bool) {
			w := newWorld(ctx, kind)
			if encrypted {
				w.encrypt()
			}
			m := w.newMachine(ctx)
			failing := m.bindParameters("bind-1", object{"failure": 1})
			Expect(m.processesFor(exits(0, func() answer { return m.bind(ctx, "bind-1") }))).To(ConsistOf(cost.bind))
			Expect(m.processesFor(exits(0, func() answer {
				return m.unbind(ctx, "bind-1")
			}))).To(ConsistOf(cost.unbind))
			Expect(m.processesFor(exits(41, func() answer {
				return m.unbind(ctx, "bind-1")
			}))).To(ConsistOf(cost.absent))
			Expect(m.processesFor(exits(1, func() answer {
				return m.call(ctx, createBinding, failing)
			}))).To(ConsistOf(cost.failing))
			Expect(m.processesFor(func() answer { m.deploy(ctx); return answer{} })).To(BeEmpty())
			w.expectNothingLeft()
		}, Entry("with states in clear text", false), Entry("with encrypted states", kit.Slow(), true))
	}
})
