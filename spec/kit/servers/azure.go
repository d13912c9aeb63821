package servers

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"service-adapter/spec/kit"
)

// AzuriteVersion is the version of azurite, which emulates Azure's blob storage.
const AzuriteVersion = "3.35.0"

// azureDomain is the domain of the emulated Azure cloud.
const azureDomain = "azure.test"

// AzureMetadata is the host of the metadata service of the emulated cloud, the value of OpenTofu's metadata_host.
const AzureMetadata = "metadata." + azureDomain

// Azure starts a server of Azure's blob storage with one account. OpenTofu reaches it only through the environment of
// AzureCloud. The error is an ErrMissing if azurite is not installed.
func Azure(ctx context.Context, dir string) (*Server, error) {
	program, err := tool("azurite", AzuriteVersion, "node_modules", ".bin", "azurite-blob")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	key := make([]byte, 64)
	if _, err := rand.Read(key); err != nil {
		return nil, err
	}
	s := &Server{
		Host: "127.0.0.1", Port: port, User: "adapter", Password: base64.StdEncoding.EncodeToString(key), Dir: dir,
		log: filepath.Join(dir, "log"), stop: syscall.SIGTERM,
	}
	s.command = func() *exec.Cmd {
		cmd := exec.Command(program, "--blobHost", s.Host, "--blobPort", fmt.Sprint(s.Port), "--location", dir,
			"--silent",
			"--disableTelemetry", "--skipApiVersionCheck")
		cmd.Env = []string{"AZURITE_ACCOUNTS=" + s.User + ":" + s.Password, "HOME=" + dir, "PATH=" + os.Getenv("PATH")}
		cmd.Dir = dir
		return cmd
	}
	return s, s.Start(ctx)
}

// AzureCloud emulates an Azure cloud around the storage server until the test ends. It is needed because OpenTofu
// speaks only HTTPS, to hosts of a domain that a metadata service states. It returns the environment of clients: a
// proxy that connects to these hosts, and the authority of their certificate.
func (s *Server) AzureCloud(t kit.T) (environment []string) {
	t.Helper()
	names := []string{AzureMetadata, s.User + ".blob." + azureDomain}
	certificates := NewCertificates(t, names...)
	pair, err := tls.X509KeyPair([]byte(certificates.Certificate), []byte(certificates.Key))
	authority := filepath.Join(s.Dir, "ca.pem")
	if err := errors.Join(err, os.WriteFile(authority, []byte(certificates.CA), 0o600)); err != nil {
		t.Fatalf("creating the certificate of a cloud: %s", err)
	}
	storage := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: s.Address()})
		r.Out.Host = r.In.Host // the host name contains the account
	}}
	cloud := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host != AzureMetadata {
			storage.ServeHTTP(w, r)
			return
		}
		_, _ = fmt.Fprintf(w, `{"authentication": {"loginEndpoint": "https://login.%[1]s",
			"audiences": ["https://%[1]s"]},
			"resourceManager": "https://management.%[1]s", "suffixes": {"storage": "%[1]s"}}`, azureDomain)
	}))
	cloud.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	cloud.StartTLS()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		tunnel(w, cloud.Listener.Addr().String())
	}))
	t.Cleanup(func() {
		cloud.CloseClientConnections()
		proxy.Close()
		cloud.Close()
	})
	return []string{"HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + authority}
}

// tunnel answers a CONNECT request by connecting the client with an address. It returns when the client has closed the
// connection.
func tunnel(w http.ResponseWriter, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close() //nolint:errcheck // all data has been copied
	client, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close() //nolint:errcheck // as above
	if _, err := io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}

// CreateContainer creates an empty container of Azure's storage. It returns an error if the container exists or the
// server does not respond.
func (s *Server) CreateContainer(ctx context.Context, name string) error {
	_, err := s.azure(ctx, http.MethodPut, name, "restype", "container")
	return err
}

// Blob returns the content of a blob. It returns an error if the blob does not exist or the server does not respond.
func (s *Server) Blob(ctx context.Context, container, name string) (string, error) {
	text, err := s.azure(ctx, http.MethodGet, container+"/"+name)
	return string(text), err
}

// RemoveBlob removes a blob. If the blob is leased, which is OpenTofu's lock, it breaks the lease first. It returns an
// error if the blob does not exist or the server does not respond.
func (s *Server) RemoveBlob(ctx context.Context, container, name string) error {
	if _, err := s.azure(ctx, http.MethodDelete, container+"/"+name); err == nil {
		return nil
	}
	_, err := s.azure(ctx, http.MethodPut, container+"/"+name, "comp", "lease", "x-ms-lease-action", "break")
	if err == nil {
		_, err = s.azure(ctx, http.MethodDelete, container+"/"+name)
	}
	return err
}

// Blobs returns the sorted names of the blobs in a container. It returns an error if the container does not exist or
// the server does not respond.
func (s *Server) Blobs(ctx context.Context, container string) ([]string, error) {
	text, err := s.azure(ctx, http.MethodGet, container, "comp", "list", "restype", "container")
	if err != nil {
		return nil, err
	}
	var found struct {
		Names []string `xml:"Blobs>Blob>Name"`
	}
	return found.Names, xml.Unmarshal(text, &found)
}

// azure sends a request for a container or a blob, signed with the account's key, and returns the response. The rest
// contains pairs of names and values: headers, which begin with x-ms-, and parameters of the query, sorted by name. A
// response that does not report success is an error.
func (s *Server) azure(ctx context.Context, method, path string, rest ...string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.URL()+"/"+s.User+"/"+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Ms-Date", time.Now().UTC().Format(http.TimeFormat))
	r.Header.Set("X-Ms-Version", "2021-08-06")
	query, resource := url.Values{}, "/"+s.User+r.URL.EscapedPath()
	for pair := range slices.Chunk(rest, 2) {
		if strings.HasPrefix(pair[0], "x-ms-") {
			r.Header.Set(pair[0], pair[1])
			continue
		}
		query.Set(pair[0], pair[1])
		resource += "\n" + pair[0] + ":" + pair[1]
	}
	r.URL.RawQuery = query.Encode()
	var headers []string
	for name := range r.Header {
		headers = append(headers, strings.ToLower(name)+":"+r.Header.Get(name)+"\n")
	}
	slices.Sort(headers)
	key, err := base64.StdEncoding.DecodeString(s.Password)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	_, _ = io.WriteString(mac, method+strings.Repeat("\n", 12)+strings.Join(headers, "")+resource)
	r.Header.Set("Authorization", "SharedKey "+s.User+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // the body has been read
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return text, err
}
