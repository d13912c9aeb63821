package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
)

// handle gives the input to the SDK, which validates it as the broker's authors mean it and calls back; the product is what
// the callback made, because the SDK's own would lose keys of the manifest.
func (c *call) handle(ctx context.Context, s *session, in *input) (product, error) {
	bridge := &bridge{ctx: ctx, session: s, in: in}
	handler := serviceadapter.CommandLineHandler{
		ManifestGenerator: bridge, Binder: bridge, DashboardURLGenerator: bridge, SchemaGenerator: bridge,
	}
	err := handler.Handle(in.args, io.Discard, c.stderr, bytes.NewReader(in.stdin))
	if bridge.err != nil {
		return product{}, bridge.err
	}
	if err != nil {
		return product{}, fmt.Errorf("[odb-sdk] %w", err)
	}
	if text, ok := bridge.product.(string); ok {
		return product{head: []byte(text)}, nil
	}
	if bridge.product == nil {
		return product{}, nil
	}
	return encode(bridge.product)
}

// errRefused is what the SDK is told when a command fails; the error itself stays with the bridge.
var errRefused = errors.New("the command failed")

// bridge implements the SDK's interfaces. It works on the input as the broker sent it and keeps the outcome.
type bridge struct {
	ctx     context.Context //nolint:containedctx // one process is one call, and the SDK's interfaces have no context
	session *session
	in      *input
	product any
	err     error
}

// GenerateManifest makes the manifest. What the SDK gets is only enough for it to succeed.
func (b *bridge) GenerateManifest(params serviceadapter.GenerateManifestParams) (serviceadapter.GenerateManifestOutput, error) {
	result, err := b.session.generateManifest(b.ctx, b.in, params)
	if err != nil {
		b.err = err
		return serviceadapter.GenerateManifestOutput{}, errRefused
	}
	b.product = result
	if b.in.text {
		b.product = result.Manifest
	}
	return serviceadapter.GenerateManifestOutput{Manifest: bosh.BoshManifest{Name: params.ServiceDeployment.DeploymentName}}, nil
}

// CreateBinding makes a binding.
func (b *bridge) CreateBinding(params serviceadapter.CreateBindingParams) (serviceadapter.Binding, error) {
	result, err := b.session.createBinding(b.ctx, b.in, params)
	if err != nil {
		b.err = err
		return serviceadapter.Binding{}, errRefused
	}
	b.product = result
	return serviceadapter.Binding{}, nil
}

// DeleteBinding deletes a binding; its product is empty.
func (b *bridge) DeleteBinding(params serviceadapter.DeleteBindingParams) error {
	if b.err = b.session.deleteBinding(b.ctx, b.in, params); b.err != nil {
		return errRefused
	}
	return nil
}

// DashboardUrl returns the dashboard's URL.
//
//nolint:staticcheck // the SDK names it
func (b *bridge) DashboardUrl(params serviceadapter.DashboardUrlParams) (serviceadapter.DashboardUrl, error) {
	url, err := b.session.dashboardURL(b.in, params)
	if err != nil {
		b.err = err
		return serviceadapter.DashboardUrl{}, errRefused
	}
	b.product = serviceadapter.DashboardUrl{DashboardUrl: url}
	return serviceadapter.DashboardUrl{}, nil
}

// GeneratePlanSchema returns the schemas of a plan.
func (b *bridge) GeneratePlanSchema(serviceadapter.GeneratePlanSchemaParams) (serviceadapter.PlanSchema, error) {
	schema, err := b.session.planSchemas(b.in)
	if err != nil {
		b.err = err
		return serviceadapter.PlanSchema{}, errRefused
	}
	b.product = schema
	return serviceadapter.PlanSchema{}, nil
}
