package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/certificates"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/record"
)

// A certificateFlags holds the flags of the command `certificates`: those that select instances if the arguments of
// the command do not name their ids, the time to look ahead, and the server or authorities to compare with. check
// must be called before run. The zero value selects only the instances that are named, and run returns an error for
// it, because the time to look ahead is missing.
type certificateFlags struct {
	// all selects every service instance, and service and plan restrict it to those with these names; "" means any.
	all           bool
	service, plan string
	// expiresWithin is how long the command looks ahead, as the user wrote it.
	expiresWithin string
	// brokerConfig is the configuration file of the broker, whose Director is asked; "" asks no Director.
	brokerConfig string
	// server and ca are the real server or the file of the real authorities with which bindings are compared; at most
	// one is set.
	server, ca string
	asJSON     bool
}

// newCertificates returns the command `certificates`, which lists the certificates of service instances and their
// bindings, those that expire soon, and the bindings that must be created again because of their authorities. The
// instances are selected by ids, which are the arguments, or with --all and filters. Each binding is compared with
// the newest one of its instance, and with a server or with authorities only if --server or --ca is set. The Director
// is asked only with --broker-config. streams receive the list as text or with --json as JSON, and the progress and a
// summary. Reading the states may delete empty workspaces.
//
// The command returns a usageError for an invalid command line. It returns another error if the operator cannot be
// opened, if a file of the flags cannot be used, if the server of --server cannot be asked, if the states cannot be
// listed, if certificates could not be read or asked for, or if the output cannot be written. Otherwise it returns
// errFindings if a certificate is due or a binding must be created again.
func newCertificates(streams Streams) *cobra.Command {
	var flags certificateFlags
	command := &cobra.Command{
		Use:   "certificates ID… | --all",
		Short: "List certificates of instances and bindings, those that expire soon, and bindings to create again",
		Long: `List the certificates of service instances, by their ids, and of their bindings: those that the Director
of --broker-config reports for the last successful deployment, and those in the stored credentials of bindings and in
the outputs of provision templates, wherever they contain a PEM certificate. Private keys are not read. A certificate is
due if it expires within the time of --expires-within.

A binding has another authority than the newest binding of its instance if it lacks an authority that the newest one
has. The stored data do not say which authority signs today: --server compares the bindings of one instance with the
certificate that a server presents, and --ca compares bindings with the authorities in a file.
docs/operations/rotate-a-certificate-authority.md has the procedure.` +
			exitStatus("0 nothing is due",
				"1 a certificate is due, or a binding has another authority or does not trust the real one",
				"3 an instance could not be asked about, a certificate could not be read, or any other error"),
		Example: "  service-adapter certificates 3f1c9a52-0d3c-4c57-9a52-8a3a9c1e6f0b --server 10.0.0.7:5432\n" +
			"  service-adapter certificates --all --broker-config /var/vcap/jobs/broker/config/broker.yml",
		Args: func(_ *cobra.Command, ids []string) error { return flags.check(ids) },
	}
	command.Flags().BoolVar(&flags.all, "all", false, "all instances, or those that the other flags select")
	command.Flags().StringVar(&flags.service, "service", "", "only instances of the service with this name")
	command.Flags().StringVar(&flags.plan, "plan", "", "only instances of the plan with this name")
	command.Flags().StringVar(&flags.expiresWithin, "expires-within", "60d",
		"report certificates as due that expire within this time, such as 720h or 30d")
	command.Flags().StringVar(&flags.brokerConfig, "broker-config", "",
		"the configuration of the broker, broker.yml of its job, whose Director is asked")
	command.Flags().StringVar(&flags.server, "server", "",
		"compare the bindings of one instance with the certificate of its server at HOST:PORT")
	command.Flags().StringVar(&flags.ca, "ca", "",
		"compare bindings with all authorities in this file of PEM certificates")
	jsonFlag(command, &flags.asJSON)
	completeStored(streams, command, lifecycle.Instance)
	return withOperator(command, streams, &states.Options{}, func(
		ctx context.Context, operator *states.Operator, ids []string,
	) error {
		return flags.run(ctx, streams, operator, ids)
	})
}

// check returns an error if the command line is invalid, and nil otherwise. ids are the arguments of the command, the
// ids of instances. It is an error if both ids and --all are present or neither is, if --service or --plan is set
// without --all, if --server and --ca are both set, or if --server is set without exactly one id. The errors are plain
// errors, which setArgumentChecks turns into usageErrors. The values of the flags are not checked.
func (f *certificateFlags) check(ids []string) error {
	switch {
	case f.all && len(ids) > 0:
		return errors.New("ids and --all exclude each other")
	case !f.all && len(ids) == 0:
		return errors.New("which instances? name their ids or set --all")
	case !f.all && f.service+f.plan != "":
		return errors.New("filters require --all")
	case f.server != "" && f.ca != "":
		return errors.New("--server and --ca exclude each other")
	case f.server != "" && len(ids) != 1:
		return errors.New("--server requires the id of the one instance to which the server belongs")
	default:
		return nil
	}
}

// run surveys the selected instances and writes the report to standard output, and progress and a summary to standard
// error. ids are the ids of the instances, and are empty with --all. The Director is asked only with --broker-config.
// Reading the states may delete empty workspaces.
//
// run returns a usageError if --expires-within is not an age or if --service or --plan names nothing that exists. It
// returns another error if a file of the flags cannot be used, if the server of --server cannot be asked, if the state
// backend cannot be read, if no pak has a usable OpenTofu, if ctx ends, or if the report cannot be written.
//
// run writes the report and returns an error if it is incomplete: if certificates of an instance or binding could not
// be read or asked for, also because the Director does not have the deployment of an instance, or if the Director
// cannot list its deployments. If no Director is asked, it is incomplete if the state backend contains neither the
// instance of an id nor a binding of it. Otherwise run returns errFindings if a certificate is due or a binding must
// be created again, and nil if not.
func (f *certificateFlags) run(ctx context.Context, streams Streams, operator *states.Operator, ids []string) error {
	within, err := parseAge("expires-within", f.expiresWithin)
	if err != nil {
		return err
	}
	fleet, err := brokerFleet(operator, f.brokerConfig)
	if err != nil {
		return err
	}
	reference, err := f.reference(ctx)
	if err != nil {
		return err
	}
	survey := certificates.New(certificates.Options{
		IDs: ids, Service: f.service, Plan: f.plan, ExpiresWithin: within, Now: time.Now(),
	})
	if err := f.addStored(ctx, streams, operator, survey); err != nil {
		return err
	}
	survey.AddSelected(fleet != nil)
	if fleet == nil {
		say(streams, "the Director was not asked: add --broker-config FILE for the certificates of deployments")
	} else {
		progress := newProgress(streams, "asking the Director")
		err := survey.Ask(ctx, *fleet, progress.report)
		progress.end()
		if err != nil {
			return err
		}
	}
	if reference != nil {
		survey.Compare(reference)
	}
	return f.report(streams, survey, reference)
}

// addStored adds the bindings and instances in the state backend to survey, which leaves out those that its options
// exclude. It writes its progress to standard error. A single state that cannot be read is not an error; the survey
// records it. Reading may delete empty workspaces; see lifecycle.Manager.Walk.
//
// addStored returns a usageError if the service or the plan of the flags is unknown, that is, if neither a readable pak
// nor a stored item has it, nor, for a plan, the operator's configuration or environment adds it; with --service the
// plan must be one of that service. It returns another error if the state backend cannot be read, if no pak has a
// usable OpenTofu, or if ctx ends. After an error the survey may contain items.
func (f *certificateFlags) addStored(
	ctx context.Context, streams Streams, operator *states.Operator, survey *certificates.Survey,
) error {
	progress := newProgress(streams, "reading states")
	services, plans := operator.Services(), operator.Plans(f.service)
	err := operator.Walk(ctx, "", progress.report, func(stored *lifecycle.Stored) error {
		services = append(services, stored.Service)
		if f.service == "" || f.service == stored.Service {
			plans = append(plans, stored.Plan)
		}
		survey.Add(stored)
		return nil
	})
	progress.end()
	if err != nil {
		return err
	}
	return cmp.Or(checkName("service", f.service, services), checkName("plan", f.plan, plans))
}

// brokerFleet returns a client for the Director of an on-demand broker, with the function that recognises the instances
// of the broker's service. operator supplies the services of the paks for that function, and must not be closed while
// it is used. brokerConfig is the path of the broker's configuration file, broker.yml; for "" the result is nil without
// an error. brokerFleet returns nil and an error if that file cannot be read or is invalid, if the address or the
// credentials of the Director in it are missing or malformed, or if its CA certificate is set and contains no
// certificate. The Director is not asked yet.
func brokerFleet(operator *states.Operator, brokerConfig string) (*certificates.Fleet, error) {
	if brokerConfig == "" {
		return nil, nil //nolint:nilnil // nil means that no Director is asked
	}
	broker, err := odb.ReadBrokerConfig(brokerConfig)
	if err != nil {
		return nil, err
	}
	client, err := brokerDirector(broker)
	if err != nil {
		return nil, err
	}
	owns := func(stored *record.InstanceRecord) bool { return operator.Owns(stored, broker.Catalog.ID) }
	return &certificates.Fleet{Director: client, Owns: owns}, nil
}

// reference returns the server of --server or the authorities in the file of --ca, with which bindings are compared.
// It returns nil without an error if neither flag is set; check ensures that not both are. For --server it connects
// to the server, and returns nil and an error if the address is not HOST:PORT, if the server cannot be reached within
// ten seconds, does not use TLS or presents a malformed certificate, or if ctx ends. For --ca it returns nil and an
// error if the file cannot be read, contains no certificate in PEM, or contains a malformed one. Certificates are not
// verified.
func (f *certificateFlags) reference(ctx context.Context) (*certificates.Reference, error) {
	switch {
	case f.server != "":
		return certificates.Dial(ctx, f.server)
	case f.ca != "":
		return certificates.ReadAuthorities(f.ca)
	default:
		return nil, nil //nolint:nilnil // nil means no comparison
	}
}

// report writes the instances of a survey to standard output, as text or JSON, and problems and a summary to standard
// error. The survey must be finished: all instances have been added, the Director has been asked if it is to be, and
// the bindings have been compared with reference. reference is nil without a comparison.
//
// report returns an error if the output cannot be written, if certificates of an instance or a binding could not be
// read or asked for, or if instances may be missing. Otherwise it returns errFindings if a certificate is due, if a
// binding lacks an authority that the newest binding of its instance has, which is checked also without a reference,
// or if the comparison showed that a binding does not trust the server or lacks an authority of reference. It returns
// nil in all other cases.
func (f *certificateFlags) report(
	streams Streams, survey *certificates.Survey, reference *certificates.Reference,
) error {
	instances := survey.Instances()
	due, rebind, failed := 0, 0, len(survey.Unreadable)+len(survey.Errors)
	var text strings.Builder
	for _, instance := range instances {
		due += instance.Due()
		rebind += len(otherAuthorities(instance.Bindings)) + len(untrusted(instance.Bindings))
		if instance.Failed() {
			failed++
		}
		writeCertificates(&text, instance, reference)
	}
	document := map[string]any{"format_version": documentFormat, "instances": instances}
	if len(survey.Unreadable) > 0 {
		document["unreadable"] = survey.Unreadable
	}
	if len(survey.Errors) > 0 {
		document["errors"] = survey.Errors
	}
	if err := writeEither(streams, f.asJSON, document, text.String()); err != nil {
		return err
	}
	for _, binding := range survey.Unreadable {
		say(streams, fmt.Sprintf("binding %s is unreadable: %s", binding.ID, binding.Error))
	}
	for _, message := range survey.Errors {
		say(streams, message)
	}
	say(streams, fmt.Sprintf("%s, %s due", counted(len(instances), "instance"), counted(due, "certificate")))
	if failed > 0 {
		return fmt.Errorf("some certificates could not be read, in %d of the instances and bindings", failed)
	}
	return findingsError(due+rebind > 0)
}

// otherAuthorities returns the ids of the bindings whose OtherAuthority is set: those that lack an authority that the
// newest binding of their instance has. The ids are in the order of bindings. The result is nil if there are none.
func otherAuthorities(bindings []certificates.Binding) (ids []string) {
	for _, binding := range bindings {
		if binding.OtherAuthority {
			ids = append(ids, binding.ID)
		}
	}
	return ids
}

// untrusted returns the ids of the bindings whose Trusted is false: those that do not trust the real server or lack a
// real authority of a comparison. The ids are in the order of bindings. The result is nil if there are none. A binding
// that was not compared, whose Trusted is nil, is not one of them.
func untrusted(bindings []certificates.Binding) (ids []string) {
	for _, binding := range bindings {
		if binding.Trusted != nil && !*binding.Trusted {
			ids = append(ids, binding.ID)
		}
	}
	return ids
}
