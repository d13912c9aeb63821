package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/fault"
)

// inputError says that the broker's input cannot be used.
type inputError struct{ err error }

func (e inputError) Error() string { return e.err.Error() }
func (e inputError) Unwrap() error { return e.err }

// handle runs the command. What no service of the paks has is refused before anything is read, as the SDK does; but bindings that an
// earlier version of a pak made can be deleted.
func (c *call) handle(ctx context.Context, s *session) ([]byte, error) {
	if c.command != deleteBinding && !s.implements(c.command) {
		return nil, fmt.Errorf("%s: %w", lacking(c.command), fault.ErrNotImplemented)
	}
	bridge := &bridge{ctx: ctx, session: s, stderr: c.stderr}
	err := bridge.respond(c.Args, c.Stdin)
	// Afterwards, when all secrets of the request are known.
	s.recordRequest(c.command, bridge.params)
	switch {
	case errors.As(err, new(inputError)) && !s.implements(c.command):
		return nil, fmt.Errorf("%s: %w: %w", lacking(c.command), fault.ErrNotImplemented, err)
	case err != nil || bridge.product == nil:
		return nil, err
	}
	if made, ok := bridge.product.(*serviceadapter.MarshalledGenerateManifest); ok && bridge.params.TextOutput {
		return plainManifest(made)
	}
	return encode(bridge.product)
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
	for _, pak := range s.paks {
		for _, service := range pak.Services {
			has := true
			switch command {
			case dashboardURL:
				has = service.Provision.Bosh != nil && service.Provision.Bosh.DashboardURL != nil
			case createBinding, deleteBinding:
				has = service.Binds() || service.HasBackupAgent()
			}
			if has {
				return true
			}
		}
	}
	return false
}

// lacking says what no service has when a command is not implemented.
func lacking(command string) string {
	if command == dashboardURL {
		return "no service has a dashboard_url"
	}
	return "no service has a bind section"
}

// errRefused is what the SDK is told when a command fails; the error itself stays with the bridge.
var errRefused = errors.New("the command failed")

// bridge implements the SDK's interfaces. It works on the input as the broker sent it and keeps the outcome, because the SDK's own
// would lose keys of the manifest.
type bridge struct {
	ctx     context.Context //nolint:containedctx // one process is one call, and the SDK's interfaces have no context
	session *session
	stderr  io.Writer
	params  serviceadapter.InputParams
	product any
	err     error
}

// action is the SDK's action of a command, which reads its input, validates it as the broker's authors mean it, and calls back.
func (b *bridge) action(command string) serviceadapter.Action {
	switch command {
	case generateManifest:
		return serviceadapter.NewGenerateManifestAction(b)
	case createBinding:
		return serviceadapter.NewCreateBindingAction(b)
	case deleteBinding:
		return serviceadapter.NewDeleteBindingAction(b)
	case dashboardURL:
		return serviceadapter.NewDashboardUrlAction(b)
	default:
		return serviceadapter.NewGeneratePlanSchemasAction(b, b.stderr)
	}
}

// respond reads the input of a command and runs it.
func (b *bridge) respond(args []string, stdin io.Reader) error {
	action := b.action(args[1])
	var err error
	if b.params, err = readInput(action, args, stdin); err != nil {
		return inputError{err}
	}
	return b.execute(action)
}

// execute runs an action on the input.
func (b *bridge) execute(action serviceadapter.Action) error {
	params, err := forSDK(b.params)
	if err != nil {
		return inputError{err}
	}
	err = action.Execute(params, io.Discard)
	switch {
	case b.err != nil:
		return b.err
	case err != nil:
		return inputError{fmt.Errorf("[odb-sdk] %w", err)}
	default:
		return nil
	}
}

// GenerateManifest makes the manifest. What the SDK gets is only enough for it to succeed.
func (b *bridge) GenerateManifest(params serviceadapter.GenerateManifestParams) (serviceadapter.GenerateManifestOutput, error) {
	result, err := b.session.generateManifest(b.ctx, b.params, params)
	if err != nil {
		b.err = err
		return serviceadapter.GenerateManifestOutput{}, errRefused
	}
	b.product = result
	return serviceadapter.GenerateManifestOutput{Manifest: bosh.BoshManifest{Name: params.ServiceDeployment.DeploymentName}}, nil
}

// CreateBinding makes a binding.
func (b *bridge) CreateBinding(serviceadapter.CreateBindingParams) (serviceadapter.Binding, error) {
	result, err := b.session.createBinding(b.ctx, createInput(b.params.CreateBinding))
	if err != nil {
		b.err = err
		return serviceadapter.Binding{}, errRefused
	}
	b.product = result
	return serviceadapter.Binding{}, nil
}

// DeleteBinding deletes a binding; its product is empty.
func (b *bridge) DeleteBinding(serviceadapter.DeleteBindingParams) error {
	if b.err = b.session.deleteBinding(b.ctx, deleteInput(b.params.DeleteBinding)); b.err != nil {
		return errRefused
	}
	return nil
}

// DashboardUrl returns the dashboard's URL.
//
//nolint:staticcheck // the SDK names it
func (b *bridge) DashboardUrl(params serviceadapter.DashboardUrlParams) (serviceadapter.DashboardUrl, error) {
	url, err := b.session.dashboardURL(b.params.DashboardUrl, params)
	if err != nil {
		b.err = err
		return serviceadapter.DashboardUrl{}, errRefused
	}
	b.product = serviceadapter.DashboardUrl{DashboardUrl: url}
	return serviceadapter.DashboardUrl{}, nil
}

// GeneratePlanSchema returns the schemas of a plan.
func (b *bridge) GeneratePlanSchema(serviceadapter.GeneratePlanSchemaParams) (serviceadapter.PlanSchema, error) {
	schema, err := b.session.planSchemas(b.params.GeneratePlanSchemas)
	if err != nil {
		b.err = err
		return serviceadapter.PlanSchema{}, errRefused
	}
	b.product = schema
	return serviceadapter.PlanSchema{}, nil
}
