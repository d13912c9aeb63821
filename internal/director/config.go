// Package director asks a BOSH Director which deployments there are and for their manifests, with HTTPS requests only that change nothing.
package director

import (
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
)

// defaultPort is where Directors listen.
const defaultPort = "25555"

// Config says how to reach a Director. It needs either a client of the Director's UAA or, for a Director without UAA, a user.
type Config struct {
	// URL is https://HOST:25555; the scheme and the port may be left out.
	URL string
	// CACert are the PEM certificates that the Director and its UAA are trusted by; those of the system when it is empty.
	CACert string
	// ClientID and ClientSecret are those of the client of the UAA.
	ClientID, ClientSecret string
	// Username and Password are those of the user.
	Username, Password string
}

// ReadConfig reads a YAML file with the keys url, ca_cert, client_id, client_secret, username and password, all of them texts. The
// file must not be readable for everybody. Errors do not show what the file holds.
func ReadConfig(path string) (*Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading how to reach the Director: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return nil, fmt.Errorf("%s holds a secret and everybody may use it (mode %04o): make it 0600", path, mode)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading how to reach the Director: %w", err)
	}
	config, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return config, nil
}

func parse(text []byte) (*Config, error) {
	var config Config
	fields := map[string]*string{
		"url": &config.URL, "ca_cert": &config.CACert, "client_id": &config.ClientID, "client_secret": &config.ClientSecret,
		"username": &config.Username, "password": &config.Password,
	}
	known := slices.Sorted(maps.Keys(fields))
	var document yaml.Node
	// The error is not shown: it could quote a password that YAML takes for something else.
	if err := yaml.Unmarshal(text, &document); err != nil || len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("it must be a YAML mapping with keys of %s", strings.Join(known, ", "))
	}
	pairs := document.Content[0].Content
	for i := 0; i < len(pairs); i += 2 {
		key, given := pairs[i], pairs[i+1]
		field := fields[key.Value]
		switch {
		case field == nil:
			return nil, fmt.Errorf("line %d: unknown key %q%s; there are %s", key.Line, key.Value, diag.Suggest(key.Value, known), strings.Join(known, ", "))
		case *field != "":
			return nil, fmt.Errorf("line %d: %s is given twice", key.Line, key.Value)
		case given.Kind != yaml.ScalarNode:
			return nil, fmt.Errorf("line %d: %s must be a text", key.Line, key.Value)
		case given.Tag != "!!null":
			*field = given.Value
		}
	}
	return &config, nil
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
