package rabbitmq_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"service-adapter/spec/kit/servers"
)

// internalName is the name by which the certificate of the pak can be verified wherever the node is.
const internalName = "rabbitmq.internal"

// newCertificates are what BOSH would make for the pak.
func newCertificates() servers.Certificates {
	GinkgoHelper()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "rabbitmq-ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: internalName}, DNSNames: []string{internalName, "*.node.default.bosh"},
		NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	Expect(err).NotTo(HaveOccurred())
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey)
	Expect(err).NotTo(HaveOccurred())
	keyDER, err := x509.MarshalECPrivateKey(key)
	Expect(err).NotTo(HaveOccurred())
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return servers.Certificates{CA: encode("CERTIFICATE", caDER), Certificate: encode("CERTIFICATE", leafDER), Key: encode("EC PRIVATE KEY", keyDER)}
}

// dial connects as an app that has nothing but its credentials.
func dial(credentials object) (*amqp.Connection, error) {
	config := amqp.Config{}
	if ca, ok := credentials["ca_cert"].(string); ok {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(ca))
		config.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: internalName}
	}
	return amqp.DialConfig(credentials["uri"].(string), config)
}

// connect connects an app for the rest of the spec.
func connect(credentials object) *amqp.Connection {
	GinkgoHelper()
	connection, err := dial(credentials)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = connection.Close() }) // what an unbind has closed already is fine
	return connection
}

// publish declares a queue and puts a message into it, which the node must confirm. The answer is false where it does not take it.
func publish(ctx context.Context, connection *amqp.Connection, queue, text string) bool {
	GinkgoHelper()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(channel.Confirm(false)).To(Succeed())
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{Body: []byte(text)})
	Expect(err).NotTo(HaveOccurred())
	taken, err := confirmation.WaitContext(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(channel.Close()).To(Succeed())
	return taken
}

// take gets a message out of a queue.
func take(connection *amqp.Connection, queue string) string {
	GinkgoHelper()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	message, found, err := channel.Get(queue, true)
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	return string(message.Body)
}

// whoami is the status that the management API gives a binding.
func whoami(ctx context.Context, credentials object) int {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, credentials["http_api_uri"].(string)+"whoami", nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
	return response.StatusCode
}
