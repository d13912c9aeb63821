package status

import (
	"fmt"
	"time"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/certificates"
)

// lookAheadDays is the number of days within which a certificate that expires is due. It is the default of
// `service-adapter certificates --expires-within`.
const lookAheadDays = 60

// Certificates counts the certificates that are due: those in the credentials of bindings and in the outputs of
// instances that expire within WithinDays. The Director is not asked for those of deployments.
type Certificates struct {
	// WithinDays is the number of days within which a certificate that expires is due.
	WithinDays int `json:"within_days"`
	// Due is the number of certificates that are due, and Instances that of the instances that have them.
	Due       int `json:"due"`
	Instances int `json:"instances"`
	// First is the instance whose certificate expires first, and Expiry the time in the form of lifecycle.FormatTime.
	// Both are "" if no certificate is due.
	First  string `json:"first_instance,omitempty"`
	Expiry string `json:"first_expiry,omitempty"`
}

// newSurvey returns a survey of all certificates that are due within lookAheadDays.
func newSurvey() *certificates.Survey {
	const day = 24 * time.Hour
	return certificates.New(certificates.Options{ExpiresWithin: lookAheadDays * day, Now: time.Now()})
}

// dueCertificates counts the certificates of a survey that are due, and determines the one that expires first.
// Certificates that cannot be read are not counted. It groups the bindings of the survey; see Survey.Instances.
func dueCertificates(survey *certificates.Survey) Certificates {
	counts := Certificates{WithinDays: lookAheadDays}
	var first time.Time
	for _, instance := range survey.Instances() {
		due := instance.Due()
		if due == 0 {
			continue
		}
		counts.Due += due
		counts.Instances++
		for _, expiry := range instance.Expiries() {
			if counts.First == "" || expiry.Before(first) {
				first, counts.First, counts.Expiry = expiry, instance.ID, lifecycle.FormatTime(expiry)
			}
		}
	}
	return counts
}

// text returns the number of certificates that are due and of their instances, and the first of these with the time, in
// one line without a line break. Without any it says that none is due.
func (c Certificates) text() string {
	if c.Due == 0 {
		return fmt.Sprintf("none due within %d days", c.WithinDays)
	}
	return fmt.Sprintf("%d due within %d days, of %s; the first of instance %s at %s",
		c.Due, c.WithinDays, counted(c.Instances, "instance"), c.First, c.Expiry)
}
