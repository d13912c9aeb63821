package tofu

import (
	"net"
	"regexp"
	"sync"
)

// hostName is a domain name of at least two labels.
var hostName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$`)
})

// confidential returns the values of variables that must not appear in errors: all but the addresses of hosts, without which an
// operator cannot tell what could not be reached. Those too where the template declares the variable sensitive.
func confidential(p *Prepared, vars map[string]any) []any {
	var values []any
	for name, item := range vars {
		if text, ok := item.(string); ok && !p.Variables[name].Sensitive && isAddress(text) {
			continue
		}
		values = append(values, item)
	}
	return values
}

func isAddress(text string) bool {
	return net.ParseIP(text) != nil || len(text) <= 253 && hostName().MatchString(text)
}
