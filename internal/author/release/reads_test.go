package release_test

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/release"
)

// reads returns the reads of a job with one template, each as "LINE PROPERTY" with its conditions.
func reads(template string) string {
	job := release.Job{Templates: map[string]string{"config.erb": template}}
	var all []string
	for _, read := range job.Reads() {
		text := fmt.Sprintf("%d %s", read.Line, read.Property)
		for _, condition := range read.Conditions {
			text += " if "
			if condition.Negated {
				text += "not "
			}
			text += condition.Property
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

var _ = DescribeTable("Reads", func(template, want string) {
	Expect(reads(template)).To(Equal(want))
},
	Entry("finds calls in any text", "a\n<%= p('a.b') %> <%= p(\"c\") -%>\n<%=p 'd' %>\n<%- p( 'e' ).to_s %>",
		"2 a.b, 2 c, 3 d, 4 e"),
	Entry("ignores text, comments and escaped tags", "p('a')\n<%# p('b') %><%% p('c') %>\n<% # p('d') %>", ""),
	Entry("ignores a default", "<%= p('a', 1) %><%= p('b', nil) %><%= p 'c', '' %>", ""),
	Entry("ignores computed names", "<%= p(name) %><%= p(\"a.#{b}\") %><%= p(['a', 'b']) %><%= p('a' + b) %>", ""),
	Entry("ignores methods of links", "<%= link('a').p('b') %><%= x&.p('c') %>", ""),
	Entry("ignores other names", "<%= up('a') %><%= if_p('b') %><%= {p: 'c'} %><%= :p %>", ""),
	Entry("ignores if_p and its block",
		"<% if_p('a') do |a| %><%= p('b') %><% end.else do %><%= p('c') %><% end %><%= p('d') %>", "1 d"),
	Entry("ignores blocks", "<% p('a').each do |x| %><%= p('b') %><% end %><%= x.map { |y| p('c') } %>", "1 a"),
	Entry("ignores methods", "<% def a\n p('b')\nend %>", ""),
	Entry("ignores lambdas", "<% a = -> { p('b') } %>", ""),
	Entry("recognises a condition behind a return or an error",
		"<% def a(b)\n return if b\n raise unless b\nend\np('c') %>", "5 c"),
	Entry("finds the members of mappings and lists",
		"<%= JSON.dump({ 'a' => p('a'), b: [p('b'), c(p('c'))] }) %>", "1 a, 1 b, 1 c"),
	Entry("finds interpolated calls", "<%= \"a #{p('b')} #{ {c: p('d')} }\" %>", "1 b, 1 d"),
	Entry("returns a property as a condition",
		"<% if p('a') %>\n<%= p('b') %>\n<% else -%>\n<%= p('c') %><% end %>\n<% unless p(\"d\") then p('e') end %>",
		"1 a, 2 b if a, 4 c if not a, 5 d, 5 e if not d"),
	Entry("returns conditions of several blocks", "<% if p('a')\n if !p('b')\n p('c')\n end\n end %>",
		"1 a, 2 b if a, 3 c if a if not b"),
	Entry("returns a condition behind a statement", "<%= p('a') if p('b') %><% p('c') unless p('d'); p('e') %>",
		"1 a if b, 1 b, 1 c if not d, 1 d, 1 e"),
	Entry("ignores branches with other conditions",
		"<% if p('a') == 'x' %><%= p('b') %><% elsif p('c') %><%= p('d') %><% else %><%= p('e') %><% end %>"+
			"<% if p('f') && p('g') %><%= p('h') %><% end %>",
		"1 a, 1 f"),
	Entry("ignores cases", "<% case p('a')\nwhen 'b' %><%= p('c') %><% else %><%= p('d') %><% end %><%= p('e') %>",
		"1 a, 2 e"),
	Entry("ignores reads after an operator that may skip them",
		"<% x = p('a') || p('b')\ny ||= p('c')\nz = p('d') ? p('e') : p('f')\np('g') and p('h')\np('i') %>",
		"1 a, 3 d, 4 g, 5 i"),
	Entry("ignores reads that an error may skip",
		"<% a = p('b') rescue nil\nbegin\n p('c')\nrescue\nend\np('d') %>", "6 d"),
	Entry("ignores loops", "<% while p('a') do\n p('b')\nend\nfor x in [1] do\n p('c')\nend\np('d') %>", "1 a, 7 d"),
	Entry("ignores code after a return", "<% p('a')\nif p('b')\n return\nend\np('c') %>", "1 a, 2 b"),
	Entry("recognises an if as a value", "<% x = if p('a')\n p('b')\nelse\n p('c')\nend\np('d') %>",
		"1 a, 2 b if a, 4 c if not a, 6 d"),
	Entry("joins lines", "<% x = [\n p('a'),\n p('b')\n].\n map(1)\n  .to_s if p('c') %>", "2 a if c, 3 b if c, 6 c"),
	Entry("recognises strings, words and regular expressions",
		"<% a = 'it\\'s p(\"b\")'; c = %w{p('d') e}; f = g =~ /p('h') do/; i = j / p('k') / 2\nl = %{m #{p('n')}} %>",
		"1 k, 2 n"),
	Entry("returns no reads of a template that it cannot parse",
		"<%= p('a') %><% b = <<~TEXT\n do\nTEXT\n %>", ""),
	Entry("returns no reads of a template whose blocks do not match", "<%= p('a') %><% end %>", ""),
	Entry("returns no reads of a template with an open block", "<%= p('a') %><% if b %>", ""),
	Entry("returns no reads of a template with an open tag", "<%= p('a') %><% p('b')", ""),
)
