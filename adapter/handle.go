package adapter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
)

// handle runs the command. What no service of the paks has is refused before anything is read, as the SDK does; but bindings that an
// earlier version of a pak made can be deleted.
func (c *call) handle(ctx context.Context, s *session) ([]byte, error) {
	if c.command != deleteBinding && !s.implements(c.command) {
		return nil, fmt.Errorf("%s: %w", lacking(c.command), fault.ErrNotImplemented)
	}
	params, err := c.readInput()
	var product any
	if err == nil {
		product, err = s.respond(ctx, c.command, params)
	}
	// Afterwards, when all secrets of the request are known.
	recorder{s}.record(c.command, params)
	switch {
	case errors.As(err, new(inputError)) && !s.implements(c.command):
		return nil, fmt.Errorf("%s: %w: %w", lacking(c.command), fault.ErrNotImplemented, err)
	case err != nil || product == nil:
		return nil, err
	}
	if made, ok := product.(*serviceadapter.MarshalledGenerateManifest); ok && params.TextOutput {
		return plainManifest(made)
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(product); err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return out.Bytes(), nil
}

// respond runs a command and returns what the broker gets, encoded as JSON; nil when it gets nothing.
func (s *session) respond(ctx context.Context, command string, params serviceadapter.InputParams) (any, error) {
	switch command {
	case generateManifest:
		in, err := decodeManifestInput(params.GenerateManifest)
		if err != nil {
			return nil, err
		}
		return s.generateManifest(ctx, in)
	case createBinding, deleteBinding:
		in, err := decodeBindInput(command, params)
		if err != nil {
			return nil, err
		}
		if command == deleteBinding {
			return nil, s.deleteBinding(ctx, in)
		}
		return s.createBinding(ctx, in)
	case dashboardURL:
		return s.dashboardURL(params.DashboardUrl)
	default:
		return s.planSchemas(params.GeneratePlanSchemas)
	}
}

// plainManifest is the product where the broker passes its request as arguments: it then reads nothing but a manifest.
func plainManifest(made *serviceadapter.MarshalledGenerateManifest) ([]byte, error) {
	lost := ""
	switch {
	case len(made.ODBManagedSecrets) > 0:
		lost = "secrets"
	case len(made.Configs) > 0:
		lost = "BOSH configs"
	default:
		return []byte(made.Manifest), nil
	}
	return nil, fmt.Errorf("the manifest comes with %s, which the broker would lose: it passes its requests as arguments; "+
		"set use_stdin of the broker's job to true", lost)
}

// implements tells whether any service of the paks has what a command is for.
func (s *session) implements(command string) bool {
	_, found := find(s.paks, func(service *brokerpak.Service) bool {
		switch command {
		case dashboardURL:
			return service.Provision.Bosh != nil && service.Provision.Bosh.DashboardURL != nil
		case createBinding, deleteBinding:
			return service.Binds() || service.HasBackupAgent()
		default:
			return true
		}
	})
	return found != nil
}

// lacking says what no service has when a command is not implemented.
func lacking(command string) string {
	if command == dashboardURL {
		return "no service has a dashboard_url"
	}
	return "no service has a bind section"
}
