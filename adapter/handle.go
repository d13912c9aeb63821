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
func (s *session) handle(ctx context.Context) ([]byte, error) {
	if s.command != deleteBinding && !s.implements(s.command) {
		return nil, fmt.Errorf("%s: %w", lacking(s.command), fault.ErrNotImplemented)
	}
	params, err := s.readInput()
	var product any
	if err == nil {
		product, err = s.respond(ctx, params)
	}
	// Afterwards, when all secrets of the request are known.
	recorder{s}.record(params)
	switch {
	case errors.As(err, new(inputError)) && !s.implements(s.command):
		return nil, fmt.Errorf("%s: %w: %w", lacking(s.command), fault.ErrNotImplemented, err)
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

// respond runs the command and returns what the broker gets, encoded as JSON; nil when it gets nothing.
func (s *session) respond(ctx context.Context, params serviceadapter.InputParams) (any, error) {
	switch s.command {
	case generateManifest:
		request, size, err := decodeManifestInput(params.GenerateManifest)
		if err != nil {
			return nil, err
		}
		return s.generateManifest(ctx, request, size)
	case createBinding, deleteBinding:
		request, size, err := decodeBindInput(s.command, params)
		if err != nil {
			return nil, err
		}
		if s.command == deleteBinding {
			return nil, s.deleteBinding(ctx, request)
		}
		return s.createBinding(ctx, request, size)
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
