// Package director asks a BOSH Director which deployments there are and for their manifests, with HTTPS requests only that change nothing.
package director

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"service-adapter/internal/redact"
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

// maxAnswer is how many bytes of an answer are read. That of a Director with thousands of deployments has a few megabytes.
const maxAnswer = 64 << 20

// How long one answer may take, and a login is used.
const (
	requestTimeout = 2 * time.Minute
	loginLasts     = time.Minute
)

// Client talks to one Director. It is safe for concurrent use.
type Client struct {
	config  Config
	address string // https://HOST:PORT
	http    *http.Client
	secrets redact.Secrets

	mutex     sync.Mutex
	authorize func(*http.Request)
	loggedIn  time.Time
}

// New makes a client; it sends nothing yet. The error says what is wrong with the configuration, without its secrets.
func New(config *Config) (*Client, error) {
	host, err := config.host()
	if err != nil {
		return nil, err
	}
	roots, err := config.roots()
	if err != nil {
		return nil, err
	}
	client := &Client{config: *config, address: "https://" + host, http: &http.Client{
		Timeout:   requestTimeout,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true},
		// Nothing that is asked for is elsewhere, and credentials must not go there.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	client.secrets.Add(config.ClientSecret, config.Password)
	return client, nil
}

// Address is the URL of the Director, for messages.
func (c *Client) Address() string { return c.address }

// Deployments returns the names of the deployments that the client or user may see, in the Director's order. A deployment that is
// being created or deleted is among them. The error is one sentence without secrets.
func (c *Client) Deployments(ctx context.Context) ([]string, error) {
	var listed []struct {
		Name string `json:"name"`
	}
	if err := c.get(ctx, "/deployments?exclude_configs=true", "its deployments", &listed); err != nil {
		return nil, err
	}
	if listed == nil {
		return nil, fmt.Errorf("asking the Director %s for its deployments: the answer is no list", c.address)
	}
	names := make([]string, 0, len(listed))
	for _, deployment := range listed {
		if deployment.Name == "" {
			return nil, fmt.Errorf("asking the Director %s for its deployments: the answer has one without a name", c.address)
		}
		names = append(names, deployment.Name)
	}
	return names, nil
}

// Manifest returns the manifest of a deployment as it was sent to the Director, with references to variables. There is none before the
// first one has succeeded. The error is one sentence without secrets.
func (c *Client) Manifest(ctx context.Context, deployment string) (string, error) {
	var shown struct {
		Manifest string `json:"manifest"`
	}
	err := c.get(ctx, "/deployments/"+url.PathEscape(deployment), "the manifest of "+deployment, &shown)
	if err == nil && shown.Manifest == "" {
		err = fmt.Errorf("the Director %s has no manifest of %s: none of its deployments has succeeded", c.address, deployment)
	}
	return shown.Manifest, err
}

// get asks the Director for something.
func (c *Client) get(ctx context.Context, path, what string, answer any) error {
	authorize, err := c.authorized(ctx)
	if err != nil {
		return err
	}
	if err := c.ask(ctx, c.address+path, "", authorize, answer); err != nil {
		return fmt.Errorf("asking the Director %s for %s: %w", c.address, what, err)
	}
	return nil
}

// authorized returns what makes a request an authenticated one, and logs in again before a token expires.
func (c *Client) authorized(ctx context.Context) (authorize func(*http.Request), err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if time.Since(c.loggedIn) > loginLasts {
		if c.authorize, err = c.login(ctx); err == nil {
			c.loggedIn = time.Now()
		}
	}
	return c.authorize, err
}

// login asks the Director how it authenticates, and does it.
func (c *Client) login(ctx context.Context) (authorize func(*http.Request), err error) {
	var info struct {
		Authentication struct {
			Type    string `json:"type"`
			Options struct {
				URL string `json:"url"`
			} `json:"options"`
		} `json:"user_authentication"`
	}
	if err := c.ask(ctx, c.address+"/info", "", func(*http.Request) {}, &info); err != nil {
		return nil, fmt.Errorf("asking the Director %s how to log in: %w", c.address, err)
	}
	switch kind := info.Authentication.Type; {
	case kind == "uaa" && c.config.ClientID != "":
		token, err := c.token(ctx, info.Authentication.Options.URL)
		if err != nil {
			return nil, err
		}
		return func(request *http.Request) { request.Header.Set("Authorization", "Bearer "+token) }, nil
	case kind == "uaa":
		return nil, fmt.Errorf("the Director %s has UAA: give client_id and client_secret instead of username and password", c.address)
	case kind == "basic" && c.config.Username != "":
		return func(request *http.Request) { request.SetBasicAuth(c.config.Username, c.config.Password) }, nil
	case kind == "basic":
		return nil, fmt.Errorf("the Director %s has no UAA: give username and password instead of client_id and client_secret", c.address)
	default:
		return nil, fmt.Errorf("the Director %s wants the authentication %q, not uaa or basic: is it a Director?", c.address, kind)
	}
}

// token asks the UAA that the Director names for a token of the client.
func (c *Client) token(ctx context.Context, uaa string) (string, error) {
	parsed, err := url.Parse(uaa)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return "", fmt.Errorf("the Director %s names %q as its UAA, which is no https URL", c.address, uaa)
	}
	asClient := func(request *http.Request) { request.SetBasicAuth(c.config.ClientID, c.config.ClientSecret) }
	var granted struct {
		Token string `json:"access_token"`
	}
	address := strings.TrimSuffix(uaa, "/") + "/oauth/token"
	if err := c.ask(ctx, address, "grant_type=client_credentials", asClient, &granted); err != nil {
		return "", fmt.Errorf("asking the UAA %s for a token: %w", uaa, err)
	}
	if granted.Token == "" {
		return "", fmt.Errorf("asking the UAA %s for a token: the answer has none", uaa)
	}
	c.secrets.Add(granted.Token)
	return granted.Token, nil
}

// ask sends a request, a POST where there is a form, and decodes the answer, which must be a success with the JSON that is expected.
func (c *Client) ask(ctx context.Context, address, form string, authorize func(*http.Request), answer any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, strings.NewReader(form))
	if err != nil {
		return err
	}
	if form != "" {
		request.Method = http.MethodPost
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	authorize(request)
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err // without the URL, which the caller tells
	} else if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // read only: closing cannot lose anything
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(c.refusal(response, body))
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return errors.New("the answer is not the JSON that was expected")
	}
	return nil
}

// refusal is what an answer other than 200 says, in one line. Directors and UAAs say why in JSON; proxies send pages, which say nothing.
func (c *Client) refusal(response *http.Response, body []byte) string {
	var reason struct {
		Director string `json:"description"`
		UAA      string `json:"error_description"`
	}
	text := fmt.Sprintf("it answered %d %s", response.StatusCode, http.StatusText(response.StatusCode))
	if json.Unmarshal(body, &reason) != nil || reason.Director+reason.UAA == "" {
		return text
	}
	words := strings.FieldsFunc(c.secrets.Clean(reason.Director+reason.UAA), func(char rune) bool {
		return unicode.IsSpace(char) || !unicode.IsPrint(char)
	})
	said := []rune(strings.Join(words, " "))
	const most = 200
	if len(said) > most {
		said = append(said[:most], '…')
	}
	return text + ": " + string(said)
}
