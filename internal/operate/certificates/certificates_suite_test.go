package certificates_test

import (
	"testing"

	"service-adapter/spec/kit"
)

func TestCertificates(t *testing.T) {
	kit.Suite(t, "Certificates")
}
