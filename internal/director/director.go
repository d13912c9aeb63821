// Package director reads deployments, their manifests, addresses and running tasks from a BOSH Director. All requests
// use HTTPS. None of them changes a deployment; DNSAddresses creates links at the Director and deletes them again.
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
	"time"
	"unicode"

	"service-adapter/internal/redact"
)

// defaultPort is the port on which Directors listen.
const defaultPort = "25555"

// A Config is the address and the credentials of a Director, as they are in the operator's YAML, and the DNS addresses
// that DNSAddresses returns. It must contain the URL and either a client of the Director's UAA or, for a Director
// without UAA, a user. With an empty CACert, the certificates of the system verify the Director and its UAA. The zero
// value is invalid.
type Config struct {
	// URL is https://HOST:25555. The scheme and the port may be omitted.
	URL string `yaml:"url"`
	// CACert contains the PEM certificates that verify the Director and its UAA. If it is empty, the certificates of
	// the system are used.
	CACert string `yaml:"ca_cert"`
	// ClientID and ClientSecret are the credentials of the UAA client.
	ClientID     string `yaml:"client_id"`
	ClientSecret string `yaml:"client_secret"`
	// Username and Password are the credentials of the user.
	Username string `yaml:"username"`
	Password string `yaml:"password"`
	// BindingDNS lists the DNS addresses that DNSAddresses returns. It contains the entries of binding_with_dns of the
	// broker's plans.
	BindingDNS []BindingDNS `yaml:"binding_with_dns"`
}

// host returns HOST:PORT of the Director, with defaultPort, 25555, if the URL has no port. The scheme https:// of the
// URL and a final slash are optional. host returns an error without secrets if the URL is missing or malformed, or
// unless one of the two pairs of credentials is complete and the other one is empty. A URL with another scheme than
// https, with a path, a query or credentials is malformed.
func (c *Config) host() (string, error) {
	client, user := c.ClientID != "" && c.ClientSecret != "", c.Username != "" && c.Password != ""
	switch {
	case c.URL == "":
		return "", errors.New("url is missing")
	case c.ClientID+c.ClientSecret != "" && c.Username+c.Password != "", !client && !user:
		return "", errors.New("either client_id and client_secret or username and password must be set")
	}
	address := c.URL
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	// The error of url.Parse is not shown, because it would quote a password in the URL.
	parsed, err := url.Parse(address)
	if err != nil || parsed.Hostname() == "" || strings.TrimSuffix(address, "/") != "https://"+parsed.Host {
		return "", errors.New("url must be https://HOST:PORT")
	}
	port := parsed.Port()
	if port == "" {
		port = defaultPort
	}
	return net.JoinHostPort(parsed.Hostname(), port), nil
}

// roots returns the certificates in CACert, or nil without an error if CACert is blank, so that the certificates of the
// system must be used. It returns an error if CACert is not blank and contains no certificate in PEM.
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

// maxAnswer is the number of bytes of a response that are read. With thousands of deployments it has a few megabytes.
const maxAnswer = 64 << 20

const (
	requestTimeout = 2 * time.Minute // of one HTTP request
	loginLasts     = time.Minute     // a login is repeated after this time
)

// A Client reads from one Director. It changes no deployment, but DNSAddresses creates links at the Director and
// deletes them again. A Client logs in with its first request, and again with a request that comes more than a minute
// after the last login. It is safe for concurrent use. New returns one; the zero value cannot be used.
type Client struct {
	config  Config
	address string // https://HOST:PORT
	http    *http.Client
	secrets redact.Secrets // masked in errors
	// session contains the current session. It is empty while a call checks the session and perhaps logs in, and other
	// calls wait for it.
	session chan session
}

// A session is the result of a login to the Director: a function that adds the credentials of the login, an access
// token or a user name and password, to a request, and the time of the login. The session expires one minute after that
// time, whatever the lifetime of the token is. The zero value has expired, so that the next request logs in; it has no
// function.
type session struct {
	authorize func(*http.Request) // adds the credentials of the login to a request
	began     time.Time
}

// New returns a new client of the Director that the configuration describes. It sends no request. It returns nil and an
// error without secrets if the URL is missing or malformed, if the credentials are neither a complete UAA client nor a
// complete user or belong to both, or if CACert is not blank and contains no certificate. The form of the URL is
// https://HOST:PORT; the scheme and the port are optional. BindingDNS is not checked. The configuration must not be
// nil; New copies it, so that later changes of its fields have no effect.
func New(config *Config) (*Client, error) {
	host, err := config.host()
	if err != nil {
		return nil, err
	}
	roots, err := config.roots()
	if err != nil {
		return nil, err
	}
	client := &Client{config: *config, address: "https://" + host, session: make(chan session, 1), http: &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		},
		// No resource of a Director is on another host, and credentials must not be sent there.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	client.session <- session{}
	client.secrets.Add(config.ClientSecret, config.Password)
	return client, nil
}

// Address returns the URL of the Director, https://HOST:PORT, for messages. It contains no credentials.
func (c *Client) Address() string { return c.address }

// Deployments returns the names of the deployments that the client or user may see, in the Director's order. It
// includes deployments that are being created or deleted. The result is empty and not nil if there are none.
// Deployments returns nil and an error of one sentence without secrets if the login or the request fails, also because
// ctx ends, or if the answer is not a list in which each deployment has a name.
func (c *Client) Deployments(ctx context.Context) ([]string, error) {
	var listed []struct {
		Name string `json:"name"`
	}
	if err := c.get(ctx, "/deployments?exclude_configs=true", "its deployments", &listed); err != nil {
		return nil, err
	}
	if listed == nil {
		return nil, fmt.Errorf("asking the Director %s for its deployments: the answer is not a list", c.address)
	}
	names := make([]string, 0, len(listed))
	for _, deployment := range listed {
		if deployment.Name == "" {
			return nil, fmt.Errorf("asking the Director %s for its deployments: "+
				"the answer contains a deployment without a name", c.address)
		}
		names = append(names, deployment.Name)
	}
	return names, nil
}

// Manifest returns the manifest of a deployment, in YAML as the Director received it, with references to variables such
// as ((password)) instead of their values. deployment is the name of the deployment. Manifest returns "" and an error,
// one sentence without secrets, if the deployment does not exist, if it has no manifest because it has never succeeded,
// if the login or the request fails, also because ctx ends, or if the answer is not the expected JSON.
func (c *Client) Manifest(ctx context.Context, deployment string) (string, error) {
	var shown struct {
		Manifest string `json:"manifest"`
	}
	err := c.get(ctx, "/deployments/"+url.PathEscape(deployment), "the manifest of "+deployment, &shown)
	if err == nil && shown.Manifest == "" {
		err = fmt.Errorf("the Director %s has no manifest of %s: none of its deployments has succeeded",
			c.address, deployment)
	}
	return shown.Manifest, err
}

// get requests data from the Director with credentials, and decodes the JSON response into answer, which is a
// pointer. path is the path of the URL, which begins with a slash, with its query. what names the requested data in
// the error, such as "its deployments". get logs in first if the session has expired. It returns an error, one
// sentence without secrets, if the login or the request fails, if the status is not 200, or if the response does not
// have the type of answer. The response null is not an error: a slice to which answer points is then nil, and a
// struct is unchanged.
func (c *Client) get(ctx context.Context, path, what string, answer any) error {
	authorize, err := c.authorized(ctx)
	if err != nil {
		return err
	}
	if err := c.send(ctx, message{method: http.MethodGet, url: c.address + path}, authorize, answer); err != nil {
		return fmt.Errorf("asking the Director %s for %s: %w", c.address, what, err)
	}
	return nil
}

// authorized returns a function that adds credentials to a request. It logs in first if the last login is more than a
// minute old. Concurrent calls share one login: the others wait for it. authorized returns nil and an error if ctx ends
// while it waits, in which case the error wraps the context's, or if the login fails; see login. If the login fails,
// each of the waiting calls tries it itself.
func (c *Client) authorized(ctx context.Context) (func(*http.Request), error) {
	select {
	case current := <-c.session:
		defer func() { c.session <- current }()
		if time.Since(current.began) > loginLasts {
			authorize, err := c.login(ctx)
			if err != nil {
				return nil, err
			}
			current = session{authorize, time.Now()}
		}
		return current.authorize, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a login to the Director %s: %w", c.address, ctx.Err())
	}
}

// login asks the Director for its kind of authentication and returns a function that adds the credentials to a
// request. For uaa it requests a token; for basic it sends no further request, so the credentials are not checked.
// login returns nil and an error without secrets if the kind is neither uaa nor basic, if the configuration lacks the
// credentials of that kind, if a request fails, if the URL of the UAA is not an https URL, or if the response of the
// UAA contains no token.
func (c *Client) login(ctx context.Context) (authorize func(*http.Request), err error) {
	var info struct {
		Authentication struct {
			Type    string `json:"type"`
			Options struct {
				URL string `json:"url"`
			} `json:"options"`
		} `json:"user_authentication"`
	}
	request := message{method: http.MethodGet, url: c.address + "/info"}
	if err := c.send(ctx, request, func(*http.Request) {}, &info); err != nil {
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
		return nil, fmt.Errorf("the Director %s uses UAA: "+
			"set client_id and client_secret instead of username and password", c.address)
	case kind == "basic" && c.config.Username != "":
		return func(request *http.Request) { request.SetBasicAuth(c.config.Username, c.config.Password) }, nil
	case kind == "basic":
		return nil, fmt.Errorf("the Director %s does not use UAA: "+
			"set username and password instead of client_id and client_secret", c.address)
	default:
		return nil, fmt.Errorf("the Director %s requires the authentication %q, not uaa or basic: "+
			"check that this is the URL of a Director", c.address, kind)
	}
}

// token requests an access token for the client of the configuration from a UAA. uaa is the URL of the UAA, as the
// Director reports it. The token is masked in later errors of the Client. token returns "" and an error if the URL is
// not an https URL with a host, if the request fails, or if the response contains no token.
func (c *Client) token(ctx context.Context, uaa string) (string, error) {
	parsed, err := url.Parse(uaa)
	if err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return "", fmt.Errorf("the Director %s names %q as its UAA, which is not an https URL", c.address, uaa)
	}
	asClient := func(request *http.Request) { request.SetBasicAuth(c.config.ClientID, c.config.ClientSecret) }
	var granted struct {
		Token string `json:"access_token"`
	}
	request := message{
		method: http.MethodPost, url: strings.TrimSuffix(uaa, "/") + "/oauth/token",
		contentType: "application/x-www-form-urlencoded", body: "grant_type=client_credentials",
	}
	if err := c.send(ctx, request, asClient, &granted); err != nil {
		return "", fmt.Errorf("asking the UAA %s for a token: %w", uaa, err)
	}
	if granted.Token == "" {
		return "", fmt.Errorf("asking the UAA %s for a token: the answer does not contain one", uaa)
	}
	c.secrets.Add(granted.Token)
	return granted.Token, nil
}

// A message is the content of an HTTP request: its method, its complete URL, its body and the content type of the body.
// The content type and the body are "" for a request without a body.
type message struct{ method, url, contentType, body string }

// send sends a request and decodes the JSON response into answer, which is a pointer. authorize adds the credentials to
// the request; it must not be nil. send follows no redirects. It returns an error if the request fails, for example
// because ctx or the time limit of two minutes ends, or if the status is not 200. It also returns an error if the
// response is not JSON of the type of answer, or is longer than maxAnswer. If answer is nil, any status from 200 to 299
// is accepted and the body is ignored. The error contains neither the URL nor the secrets of the client.
func (c *Client) send(ctx context.Context, content message, authorize func(*http.Request), answer any) error {
	request, err := http.NewRequestWithContext(ctx, content.method, content.url, strings.NewReader(content.body))
	if err != nil {
		return err
	}
	if content.body != "" {
		request.Header.Set("Content-Type", content.contentType)
	}
	authorize(request)
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	var failed *url.Error
	if errors.As(err, &failed) {
		return failed.Err // without the URL, which the caller adds
	} else if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // read only: closing cannot lose anything
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer: %w", err)
	}
	switch {
	case answer == nil && response.StatusCode/100 == 2:
		return nil
	case response.StatusCode != http.StatusOK:
		return errors.New(c.refusal(response, body))
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return errors.New("the answer is not the expected JSON")
	}
	return nil
}

// refusal returns the text for a response with a status that is not accepted, such as "it answered 404 Not Found:
// Deployment 'd' doesn't exist". The reason after the colon is the description that a Director or a UAA states in the
// JSON body, in one line, shortened to 200 characters and with the secrets of the client masked. The reason is left out
// if body contains none, so the pages of proxies are not quoted.
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
	description := []rune(strings.Join(words, " "))
	const most = 200
	if len(description) > most {
		description = append(description[:most], '…')
	}
	return text + ": " + string(description)
}
