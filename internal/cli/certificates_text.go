package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"service-adapter/internal/operate/certificates"
)

// writeCertificates appends an instance to text, which contains the instances before it: a heading with its id, service
// and plan, a table of its certificates, the bindings that have another authority than the newest one or that do not
// trust the reference, and the errors of the instance and its bindings. An empty line separates instances. reference is
// that of the comparison, or nil without a comparison; the instance must be one that Survey.Instances returned.
func writeCertificates(text *strings.Builder, instance *certificates.Instance, reference *certificates.Reference) {
	if text.Len() > 0 {
		text.WriteString("\n")
	}
	fmt.Fprintf(text, "instance %s", instance.ID)
	if instance.Service != "" {
		fmt.Fprintf(text, " of %s", strings.TrimSpace(instance.Service+" "+instance.Plan))
	}
	text.WriteString("\n" + certificateTable(instance, reference))
	compared := 0 // bindings with certificates
	for _, group := range instance.Groups {
		compared += len(group.Bindings)
	}
	line := func(ids []string, has, have, what string) {
		if verb := has; len(ids) > 0 {
			if len(ids) > 1 {
				verb = have
			}
			fmt.Fprintf(text, "  %d of %s %s %s: %s\n",
				len(ids), counted(compared, "binding"), verb, what, strings.Join(ids, ", "))
		}
	}
	line(otherAuthorities(instance.Bindings), "has", "have", "another authority than the newest binding")
	switch missing := untrusted(instance.Bindings); {
	case reference == nil:
	case reference.IsServer():
		line(missing, "does", "do", "not trust the certificate of "+reference.Name)
	default:
		line(missing, "does", "do", "not contain every authority of "+reference.Name)
	}
	if instance.Error != "" {
		fmt.Fprintf(text, "  error: %s\n", instance.Error)
	}
	for _, binding := range instance.Bindings {
		if binding.Error != "" {
			fmt.Fprintf(text, "  error: binding %s: %s\n", binding.ID, binding.Error)
		}
	}
}

// certificateStatus returns the cell of the column STATUS of a certificate: "due" if due is set, otherwise "superseded"
// if superseded is set, and otherwise "-".
func certificateStatus(due, superseded bool) string {
	switch {
	case due:
		return "due"
	case superseded:
		return "superseded"
	default:
		return "-"
	}
}

// printable returns the character itself if it is printable according to unicode.IsPrint, and otherwise a question
// mark, because a terminal could interpret the character as a command.
func printable(char rune) rune {
	if !unicode.IsPrint(char) {
		return '?'
	}
	return char
}

// shortFingerprint is the number of digits of a fingerprint in the table. JSON contains all 64.
const shortFingerprint = 16

// certificateTable returns the table of the certificates of an instance, with a heading and a line break at its end, or
// "" if the instance has none. The table contains first the certificates that the Director reports, then those of the
// server of a comparison, of the outputs and of the bindings. Equal certificates that several bindings contain under
// the same key, with the same authority and status, share one line with the number of bindings.
//
// In the text of certificates, characters that are not printable are replaced by question marks, and an empty cell is
// "-". A fingerprint or key id of an authority is cut to 16 digits. reference supplies the name of the server; it may
// be nil if the instance has no certificates of a server.
func certificateTable(instance *certificates.Instance, reference *certificates.Reference) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	rows := 0
	row := func(expiry time.Time, daysLeft int, status string, cells ...string) {
		if rows++; rows == 1 {
			_, _ = fmt.Fprintln(table, "  EXPIRES\tDAYS\tSTATUS\tCERTIFICATE\tISSUER\tAUTHORITY\tWHERE")
		}
		for i, cell := range cells {
			cells[i] = cmp.Or(strings.Map(printable, cell), "-")
		}
		cells = append([]string{"  " + expiry.UTC().Format(time.RFC3339), strconv.Itoa(daysLeft), status}, cells...)
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // a strings.Builder returns no errors
	}
	for _, one := range instance.Reported {
		row(one.Expiry, one.DaysLeft, certificateStatus(one.Due, false), one.Name, "-", "-", "Director")
	}
	certificate := func(one certificates.Certificate, source string) {
		authority := strings.TrimPrefix(one.Authority, "key id ")
		if len(authority) > shortFingerprint && !strings.Contains(authority, "=") {
			authority = authority[:shortFingerprint]
		}
		row(one.Expiry, one.DaysLeft, certificateStatus(one.Due, one.Superseded), one.Subject, one.Issuer, authority,
			source)
	}
	for _, one := range instance.Server {
		certificate(one, "server "+reference.Name)
	}
	for _, one := range instance.Outputs {
		certificate(one, one.Key+" of the outputs")
	}
	bindings := map[certificates.Certificate]map[string]bool{} // ids by the certificate that they contain
	var order []certificates.Certificate
	for _, binding := range instance.Bindings {
		for _, one := range binding.Certificates { // equal certificates share their Content
			if bindings[one] == nil {
				bindings[one], order = map[string]bool{}, append(order, one)
			}
			bindings[one][binding.ID] = true
		}
	}
	for _, one := range order {
		certificate(one, fmt.Sprintf("%s of %s", one.Key, counted(len(bindings[one]), "binding")))
	}
	_ = table.Flush() // a strings.Builder returns no errors
	return out.String()
}
