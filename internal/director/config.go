// Package director asks a BOSH Director which deployments there are and for their manifests, with HTTPS requests only that change nothing.
package director

import (
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"strings"
)

// defaultPort is where Directors listen.
const defaultPort = "25555"

// Config says how to reach a Director. It needs either a client of the Director's UAA or, for a Director without UAA, a user.
type Config struct {
	// URL is https://HOST:25555; the scheme and the port may be left out.
	URL string `yaml:"url"`
	// CACert are the PEM certificates that the Director and its UAA are trusted by; those of the system when it is empty.
	CACert string `yaml:"ca_cert"`
	// ClientID and ClientSecret are those of the client of the UAA.
	ClientID     string `yaml:"client_id"`
	ClientSecret string `yaml:"client_secret"`
	// Username and Password are those of the user.
	Username string `yaml:"username"`
	Password string `yaml:"password"`
}

// host checks the configuration and returns HOST:PORT of the Director.
func (c *Config) host() (string, error) {
	client, user := c.ClientID != "" && c.ClientSecret != "", c.Username != "" && c.Password != ""
	switch {
	case c.URL == "":
		return "", errors.New("url is missing")
	case c.ClientID+c.ClientSecret != "" && c.Username+c.Password != "", !client && !user:
		return "", errors.New("either client_id and client_secret or username and password must be given")
	}
	given := c.URL
	if !strings.Contains(given, "://") {
		given = "https://" + given
	}
	// The error is not shown: it would quote a password in the URL.
	parsed, err := url.Parse(given)
	if err != nil || parsed.Hostname() == "" || strings.TrimSuffix(given, "/") != "https://"+parsed.Host {
		return "", errors.New("url must be https://HOST:PORT")
	}
	port := parsed.Port()
	if port == "" {
		port = defaultPort
	}
	return net.JoinHostPort(parsed.Hostname(), port), nil
}

// roots are the certificates to trust, nil for those of the system.
func (c *Config) roots() (*x509.CertPool, error) {
	if strings.TrimSpace(c.CACert) == "" {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.CACert)) {
		return nil, errors.New("ca_cert must be certificates in PEM")
	}
	return pool, nil
}
