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

// A Certificates counts the certificates that are due, which means that they expire within WithinDays or have expired.
// It considers those in the credentials of bindings and in the outputs of service instances; the Director is not asked.
// It is part of the JSON of `status`. If no certificate is due, all fields except WithinDays are zero.
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

// newSurvey returns an empty survey, in which certificates that expire within 60 days (lookAheadDays) from now are due.
func newSurvey() *certificates.Survey {
	const day = 24 * time.Hour
	return certificates.New(certificates.Options{ExpiresWithin: lookAheadDays * day, Now: time.Now()})
}

// dueCertificates counts the certificates of a survey that are due and the service instances that have them, and
// determines the instance whose certificate expires first; of several, the one with the lowest id counts. Without due
// certificates, only WithinDays is set. survey must be one that newSurvey returned, and must be complete. Certificates
// that cannot be read are not counted. dueCertificates calls survey.Instances, which sorts and groups the bindings of
// the survey.
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

// text returns the counts in words, in one line without a line break: the number of certificates that are due, the
// number of service instances that have them in their outputs or in their bindings, and the id of the instance whose
// certificate expires first, with the time. If none is due, the text is "none due within 60 days", with the number in
// WithinDays.
func (c Certificates) text() string {
	if c.Due == 0 {
		return fmt.Sprintf("none due within %d days", c.WithinDays)
	}
	return fmt.Sprintf("%d due within %d days, of %s; the first of instance %s at %s",
		c.Due, c.WithinDays, counted(c.Instances, "instance"), c.First, c.Expiry)
}
