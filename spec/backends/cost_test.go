package backends_test

import (
	"context"
	"strings"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// processesFor returns what a command started: the first two words of each OpenTofu, without options, and "provider".
func (m *machine) processesFor(command func() answer) []string {
	GinkgoHelper()
	told := m.spy()
	command()
	names := []string{}
	for line := range strings.Lines(told()) {
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

// cost is what commands start on one kind of store, each as often as it is named.
type cost struct {
	bind, failing, unbind, absent []string
}

var _ = Describe("the number of processes", func() {
	// Of pg the adapter reads, reserves, takes over and removes states itself; of s3 OpenTofu does all of that.
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
		DescribeTable("of a binding is as small as can be: "+kind, func(ctx context.Context, encrypted bool) {
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
