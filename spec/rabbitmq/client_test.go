package rabbitmq_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"
)

// internalName is the name in the pak's certificate with which clients verify a node at any address.
const internalName = "rabbitmq.internal"

// dial connects as an app that has only its credentials.
func dial(credentials object) (*amqp.Connection, error) {
	config := amqp.Config{}
	if ca, ok := credentials["ca_cert"].(string); ok {
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(ca))
		config.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: internalName}
	}
	return amqp.DialConfig(credentials["uri"].(string), config)
}

// connect connects an app until the end of the spec.
func connect(credentials object) *amqp.Connection {
	GinkgoHelper()
	connection, err := dial(credentials)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = connection.Close() }) // an unbind may have closed the connection
	return connection
}

// publish declares a queue and publishes a message to it. It reports whether the node confirmed the message.
func publish(ctx context.Context, connection *amqp.Connection, queue, text string) bool {
	GinkgoHelper()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(channel.Confirm(false)).To(Succeed())
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false,
		amqp.Publishing{Body: []byte(text)})
	Expect(err).NotTo(HaveOccurred())
	taken, err := confirmation.WaitContext(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(channel.Close()).To(Succeed())
	return taken
}

// take receives a message from a queue, which must contain one.
func take(connection *amqp.Connection, queue string) string {
	GinkgoHelper()
	channel, err := connection.Channel()
	Expect(err).NotTo(HaveOccurred())
	message, found, err := channel.Get(queue, true)
	Expect(err).NotTo(HaveOccurred())
	Expect(found).To(BeTrue())
	return string(message.Body)
}

// whoami returns the HTTP status with which the management API answers a binding.
func whoami(ctx context.Context, credentials object) int {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, credentials["http_api_uri"].(string)+"whoami", nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.Body.Close()).To(Succeed())
	return response.StatusCode
}
