package certificates_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"service-adapter/spec/kit/servers"
)

// FuzzScan asserts that no text makes the scan panic, that every certificate that encoding/pem and crypto/x509 find in
// a text is found, that nothing else is found, and that no part of a private key is in the result.
func FuzzScan(f *testing.F) {
	credhub := servers.NewCredHub(f, time.Hour, "db.internal")
	leaf := credhub.Leaf()
	f.Add(leaf.CA + leaf.Certificate + leaf.Key)
	f.Add("text" + leaf.Key + leaf.CA[:len(leaf.CA)/2] + leaf.Key + leaf.Certificate)
	f.Add(strings.ReplaceAll(leaf.CA, "\n", `\n`))
	f.Add("-----BEGIN CERTIFICATE-----\nProc-Type: 4\n\nAAAA\n-----END CERTIFICATE-----")
	f.Fuzz(func(t *testing.T, text string) {
		survey := newSurvey()
		survey.Add(binding("b1", map[string]any{"text": text}))
		result := survey.Instances()[0].Bindings[0]
		found := map[string]bool{}
		for _, one := range result.Certificates {
			if one.Key != "text" || one.Expiry.IsZero() || one.Authority == "" && one.Issuer != "" {
				t.Errorf("%+v", one)
			}
			found[one.Fingerprint] = true
		}
		for rest := []byte(text); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			_, err := x509.ParseCertificate(block.Bytes)
			if digest := sha256.Sum256(block.Bytes); block.Type == "CERTIFICATE" && len(block.Headers) == 0 &&
				err == nil && !found[hex.EncodeToString(digest[:])] {
				t.Errorf("a certificate was not found in %q", text)
			}
		}
		if strings.Contains(text, "-----BEGIN CERTIFICATE-----") && len(found) == 0 && result.Error == "" {
			t.Errorf("neither a certificate nor an error in %q", text)
		}
		if strings.Contains(result.Error, "PRIVATE KEY") || strings.Contains(result.Error, "BEGIN") {
			t.Errorf("the error quotes the text: %s", result.Error)
		}
	})
}
