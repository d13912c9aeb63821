package director

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// A Certificate is a variable of a deployment that contains a certificate, as the Director reports it. It consists of
// the full name of the variable, such as /DIRECTOR/DEPLOYMENT/NAME, the time at which the certificate expires, and the
// number of whole days until then, which is negative for an expired certificate.
type Certificate struct {
	// Name is the full name of the variable, /DIRECTOR/DEPLOYMENT/NAME or an absolute name of the manifest.
	Name string `json:"name"`
	// Expiry is the time at which the certificate expires, and DaysLeft is the number of whole days until then. It is
	// negative after that time.
	Expiry   time.Time `json:"expiry_date"`
	DaysLeft int       `json:"days_left"`
}

// Certificates returns the certificates of a deployment in the Director's order: the variables with a certificate, in
// the versions that the last successful deployment used. deployment is the name of the deployment. The Director reads
// the values from its config server. The result is empty and not nil if no variable contains a certificate, or if the
// deployment has never succeeded. Certificates returns nil and an error, one sentence without secrets, if the
// deployment does not exist, if the Director cannot read a variable, if the login or the request fails, also because
// ctx ends, or if the answer is not a list of certificates that all have a name and a time of expiry.
func (c *Client) Certificates(ctx context.Context, deployment string) ([]Certificate, error) {
	var listed []Certificate
	what := "the certificates of " + deployment
	if err := c.get(ctx, "/deployments/"+url.PathEscape(deployment)+"/certificate_expiry", what, &listed); err != nil {
		return nil, err
	}
	if listed == nil {
		return nil, fmt.Errorf("asking the Director %s for %s: the answer is not a list", c.address, what)
	}
	for _, certificate := range listed {
		if certificate.Name == "" || certificate.Expiry.IsZero() {
			return nil, fmt.Errorf("asking the Director %s for %s: "+
				"the answer contains a certificate without a name or without a time of expiry", c.address, what)
		}
	}
	return listed, nil
}
