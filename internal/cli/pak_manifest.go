package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/test"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// A manifestFlags holds the flags of `pak manifest`. The zero value selects the manifest of the only plan of the only
// service, for a new instance and a request without parameters.
type manifestFlags struct {
	service, plan string
	// other is the plan to compare with plan, or "" to print the manifest.
	other string
	// request and previous are the files with the body of the request and with the deployed manifest; "" means none.
	request, previous string
}

// newManifest returns the command `pak manifest PAK`, which prints the BOSH manifest that the adapter generates for an
// instance of a plan, with secrets masked, or with --diff the differences between the manifests of two plans. PAK is
// the path of a directory or a zip file. With --previous the manifest is that of an update of a deployed instance. The
// command runs neither OpenTofu nor BOSH; unknown values such as outputs of templates are invented.
//
// The command fails if the pak cannot be opened or is invalid, if the plans of the environment variables
// GSB_SERVICE_<NAME>_PLANS are invalid, if the flags do not select a service and a plan or if --request and --previous
// are both standard input (usageErrors), if a file of the flags cannot be read or is invalid, if the request is
// rejected, if a manifest cannot be generated, or if the output cannot be written. Differences between plans are not an
// error.
func newManifest(streams Streams) *cobra.Command {
	var flags manifestFlags
	command := &cobra.Command{
		Use:   "manifest PAK --plan PLAN [--request FILE] [--previous FILE] [--diff PLAN]",
		Short: "Print the BOSH manifest of an instance, or compare two plans",
		Long: `Print the BOSH manifest that the adapter generates for an instance of a plan, as the Director gets it.
Secrets are references such as ((odb_secret:NAME)). A value in clear text that may be secret is printed as [redacted],
and standard error names its path. The command needs neither a Director nor a broker, and does not run OpenTofu.

--request is the broker's JSON body with the user's "parameters"; without it there are none. --previous is the manifest
of a deployed instance, which the request updates: parameters, secrets and sticky values of the instance stay, and
carry_over reads the manifest of another adapter. With --previous and without --request, the manifest is that of an
upgrade. The output of one call can be the previous manifest of the next.

Releases, stemcells, the sizes of instance groups and the configuration are those of "pak test": they are read from
tests/defaults.yml of the pak, and otherwise invented. The outputs of a provision template are those in the previous
manifest, and otherwise invented as well; standard error names them. The operator's defaults are read from environment
variables such as GSB_PROVISION_DEFAULTS.

--diff compares the manifest with that of another plan for the same request, and prints each difference with the effect
that an update of the instance to the other plan has. Both plans have the same invented sizes.` +
			exitStatus("0 the manifest or the differences were written",
				"1 the request is rejected, and standard error has the message for the user; or the pak is invalid"),
		Example: "  service-adapter pak manifest redis --plan small\n" +
			"  service-adapter pak manifest redis --plan small --diff large\n" +
			"  service-adapter pak manifest redis --plan small --request update.json --previous deployed.yml",
		RunE: func(command *cobra.Command, args []string) error {
			return withPak(streams, args[0], func(pak *brokerpak.Pak) error {
				if flags.other != "" {
					return flags.comparePlans(command.Context(), streams, pak)
				}
				return flags.printManifest(command.Context(), streams, pak)
			})
		},
	}
	command.Flags().StringVar(&flags.service, "service", "", "the service; not required if the pak has only one")
	command.Flags().StringVar(&flags.plan, "plan", "", "the plan; not required if the service has only one")
	command.Flags().StringVar(&flags.other, "diff", "", "compare the manifest with that of this `PLAN`")
	command.Flags().StringVar(&flags.request, "request", "",
		"a `file` with the request's JSON body, or - for standard input")
	command.Flags().StringVar(&flags.previous, "previous", "", "a `file` with the manifest of the deployed instance")
	return command
}

// read returns the request for a manifest that the flags describe, for a service of pak, and reads the files of
// --request and --previous. Without --plan, the request's plan is "", which means the only plan of the service, or none
// if the service has no plans. Without --request its body is nil, and without --previous its previous manifest is "".
// The plan of --diff is checked but is not part of the request.
//
// read returns a usageError if both files are standard input, if --service is missing and the pak does not have exactly
// one service, if --plan is missing and the service has several plans or --diff is set, or if the pak does not have the
// service or a plan of the flags. It returns a *fault.UserError if the request is not a JSON object or the previous
// manifest is empty or not valid YAML, and another error if a file cannot be read or ctx ends. The request is
// incomplete then.
func (f *manifestFlags) read(
	ctx context.Context, streams Streams, pak *brokerpak.Pak,
) (request test.ManifestRequest, err error) {
	if err = readOnce("request", f.request, "previous", f.previous); err != nil {
		return request, err
	}
	service, err := selectService(pak, f.service)
	if err != nil {
		return request, err
	}
	plans := service.PlanNames()
	switch {
	case f.plan != "":
		err = checkOneOf("plan", f.plan, plans)
	case len(plans) > 1 || f.other != "":
		err = usageError{fmt.Errorf("which plan? set --plan; the service has: %s", diag.Names(plans))}
	}
	if err == nil && f.other != "" {
		err = checkOneOf("diff", f.other, plans)
	}
	if err != nil {
		return request, err
	}
	request.Service, request.Plan = service.Name, f.plan
	request.Body, err = readRequest(ctx, streams, f.request)
	if err != nil {
		return request, err
	}
	request.Previous, err = readFile(ctx, streams, f.previous)
	if err == nil && f.previous != "" {
		if _, _, invalid := yamltree.Read(request.Previous); invalid != nil {
			err = &fault.UserError{Message: f.previous + ": the manifest must be valid YAML", Err: invalid}
		}
	}
	return request, err
}

// printManifest writes the BOSH manifest of --plan, or of the only plan, to standard output with secrets masked. To
// standard error it then writes the names of invented outputs of the provision template, the paths of masked values,
// and the types of BOSH configs that the Director gets with the manifest. It returns the errors of read: a usageError
// for invalid flags, and an error if a file of the flags is invalid or cannot be read. It also returns an error if the
// request is rejected, or if the manifest cannot be generated, masked or written.
func (f *manifestFlags) printManifest(ctx context.Context, streams Streams, pak *brokerpak.Pak) error {
	request, err := f.read(ctx, streams, pak)
	if err != nil {
		return err
	}
	manifest, err := test.Generate(ctx, pak, streams.Process(), request)
	if err != nil {
		return err
	}
	text, masked, err := manifest.Masked()
	if err != nil {
		return err
	}
	if err := write(streams.Stdout, text); err != nil {
		return err
	}
	if len(manifest.SampleOutputs) > 0 {
		say(streams, "invented outputs of the provision template: "+strings.Join(manifest.SampleOutputs, ", "))
	}
	for _, path := range masked {
		say(streams, "the manifest contains a value that may be secret in clear text: "+path)
	}
	for _, kind := range value.Keys(manifest.Configs) {
		say(streams, fmt.Sprintf("the Director also gets a %s config", kind))
	}
	return nil
}

// comparePlans writes the differences between the manifests of --plan and --diff for the same request to standard
// output, with secrets masked, and their number to standard error. Values that differ whenever a manifest is generated
// are not differences; a manifest is generated twice to detect them. comparePlans returns the errors of read: a
// usageError for invalid flags, and an error if a file of the flags is invalid or cannot be read. It also returns an
// error, which names the plan, if a manifest cannot be generated, and an error if the manifests cannot be compared, or
// if the output cannot be written. Differences are not an error.
func (f *manifestFlags) comparePlans(ctx context.Context, streams Streams, pak *brokerpak.Pak) error {
	request, err := f.read(ctx, streams, pak)
	if err != nil {
		return err
	}
	var manifests []*test.Manifest
	for _, plan := range []string{f.plan, f.plan, f.other} { // the second one shows which values are generated
		request.Plan = plan
		manifest, err := test.Generate(ctx, pak, streams.Process(), request)
		if err != nil {
			return fmt.Errorf("plan %s: %w", plan, err)
		}
		manifests = append(manifests, manifest)
	}
	changes, err := manifestdiff.Between(manifests[0].Text, manifests[1].Text, manifests[2].Text)
	if err != nil {
		return err
	}
	for _, manifest := range manifests {
		manifestdiff.Mask(changes, manifest.Secrets)
	}
	if err := write(streams.Stdout, changesText("", valueNames{f.plan, f.other}, changes)); err != nil {
		return err
	}
	say(streams, counted(len(changes), "difference"))
	return nil
}
