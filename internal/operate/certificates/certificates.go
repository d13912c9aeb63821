// Package certificates surveys the certificates of service instances and bindings: those that the Director reports for
// deployments, and those in the credentials of bindings and in the outputs of instances. It finds the bindings that
// must be made again after a rotation of a certificate authority.
//
// Which authority signs cannot be known from stored data. A survey therefore compares the bindings of an instance with
// its newest binding, or, if the caller supplies it, with a real server or authority.
package certificates

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"service-adapter/internal/engine/lifecycle"
)

// Options select the instances that a survey contains, and the certificates that it considers due. The zero value
// selects all instances.
type Options struct {
	// IDs are the ids of the instances. Without any, the survey contains all instances.
	IDs []string
	// Service and Plan are the names that an instance must have; "" means any.
	Service, Plan string
	// ExpiresWithin is how long the survey looks ahead: a certificate is due if it expires within this time after Now.
	ExpiresWithin time.Duration
	Now           time.Time
}

// A Survey collects the certificates of instances: Add those in states first, then call AddSelected, Ask the Director
// and Compare with a reference, and read Instances last. AddSelected, Ask and Compare may be omitted. It is not safe
// for concurrent use.
type Survey struct {
	options   Options
	scanner   *scanner
	instances map[string]*Instance // by id
	// Unreadable are the bindings whose states cannot be read, so that their instances are unknown.
	Unreadable []Binding
	// Errors are the reasons why instances may be missing from the survey.
	Errors []string
}

// New returns an empty survey of the certificates that the options select. No certificate is read or asked for yet.
func New(options Options) *Survey {
	return &Survey{
		options: options, scanner: newScanner(options.Now, options.ExpiresWithin), instances: map[string]*Instance{},
	}
}

// An Instance is a service instance with its certificates and those of its bindings. Survey.Instances returns it;
// Groups and the fields that depend on them are set by that call.
type Instance struct {
	ID         string `json:"instance"`
	Deployment string `json:"deployment,omitempty"`
	Service    string `json:"service,omitempty"`
	Plan       string `json:"plan,omitempty"`
	// Reported are the certificates that the Director reports for the last successful deployment.
	Reported []Reported `json:"director,omitempty"`
	// Outputs are the certificates in the outputs of the provision template, which are part of the credentials of
	// bindings.
	Outputs []Certificate `json:"outputs,omitempty"`
	// Server are the certificates that the server of a comparison presented.
	Server []Certificate `json:"server,omitempty"`
	// Bindings are sorted by the time of their creation, and those of unknown age come first.
	Bindings []Binding `json:"bindings,omitempty"`
	// Groups are the bindings with certificates, by their authorities. The first group contains the newest binding.
	Groups []Group `json:"authorities,omitempty"`
	// Error is the reason why certificates of the instance, but not of its bindings, are unknown.
	Error string `json:"error,omitempty"`

	stored bool // whether the state backend contains the instance or one of its bindings
}

// A Reported is a certificate that the Director reports. Name, Expiry and DaysLeft are those of the Director's answer.
type Reported struct {
	Name     string    `json:"name"`
	Expiry   time.Time `json:"expiry"`
	DaysLeft int       `json:"days_left"`
	// Due reports whether the certificate expires within the time that the survey looks ahead, or has expired.
	Due bool `json:"due"`
}

// A Binding is a binding with the certificates in its credentials.
type Binding struct {
	ID           string        `json:"binding"`
	CreatedAt    string        `json:"created_at,omitempty"`
	Certificates []Certificate `json:"certificates,omitempty"`
	// OtherAuthority reports that the binding lacks an authority that the newest binding of the instance has: it does
	// not contain the certificate of an authority that the newest one contains, or none of its other certificates was
	// signed by an authority that signed one of the newest binding. It is false without certificates.
	OtherAuthority bool `json:"other_authority"`
	// Trusted is the result of the comparison with a real server or authority; see Survey.Compare. It is nil without a
	// comparison, and if the binding does not contain the certificate of any authority.
	Trusted *bool `json:"trusted,omitempty"`
	// Error is the reason why certificates of the binding are unknown.
	Error string `json:"error,omitempty"`
}

// A Group is a set of bindings with the same authorities.
type Group struct {
	// Trusted are the fingerprints of the authorities whose certificates the bindings contain, sorted.
	Trusted []string `json:"trusted,omitempty"`
	// SignedBy are the authorities, in the form of Certificate.Authority, that signed the other certificates of the
	// bindings, sorted.
	SignedBy []string `json:"signed_by,omitempty"`
	// Newest reports whether the newest binding is one of them.
	Newest   bool     `json:"newest"`
	Bindings []string `json:"bindings"` // ids
}

// Add adds a binding or an instance of the state backend, with its state, as Manager.Walk of package lifecycle passes
// it. It ignores those that the options exclude; if the service and the plan are unknown, because the item cannot be
// read, only Options.IDs exclude it. A binding whose instance is unknown as well is added to Unreadable, whatever the
// options are. Certificates of the state that cannot be read become the Error of the binding or the instance.
func (s *Survey) Add(stored *lifecycle.Stored) {
	id := stored.InstanceID
	if stored.Kind == lifecycle.Instance {
		id = stored.ID
	}
	binding := Binding{ID: stored.ID, CreatedAt: stored.CreatedAt, Error: stored.Error}
	if id == "" {
		s.Unreadable = append(s.Unreadable, binding)
		return
	}
	known := stored.Condition != lifecycle.Unreadable // service and plan are known
	if !s.selects(id) || known && !s.matches(stored.Service, stored.Plan) {
		return
	}
	instance := s.instance(id)
	instance.stored = true
	instance.Deployment = cmp.Or(stored.Deployment, instance.Deployment)
	instance.Service, instance.Plan = cmp.Or(instance.Service, stored.Service), cmp.Or(instance.Plan, stored.Plan)
	var found []Certificate
	var err error
	if stored.State != nil {
		found, err = s.scanner.scan(stored.State.Outputs)
	}
	failed := cmp.Or(stored.Error, errorText(err))
	if stored.Kind == lifecycle.Instance {
		instance.Outputs, instance.Error = found, failed
		return
	}
	binding.Certificates, binding.Error = found, failed
	instance.Bindings = append(instance.Bindings, binding)
}

// errorText returns the text of an error in one line, or "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// selects reports whether the options permit an instance with this id. Without Options.IDs they permit every id.
func (s *Survey) selects(id string) bool {
	return len(s.options.IDs) == 0 || slices.Contains(s.options.IDs, id)
}

// matches reports whether the options permit an instance with this service and plan. An option of "" permits every
// name.
func (s *Survey) matches(service, plan string) bool {
	return (s.options.Service == "" || s.options.Service == service) &&
		(s.options.Plan == "" || s.options.Plan == plan)
}

// deploymentPrefix begins the names of the deployments of service instances, before their ids.
const deploymentPrefix = "service-instance_"

// instance returns the instance with an id. If the survey does not contain it, instance adds it with the usual name of
// its deployment.
func (s *Survey) instance(id string) *Instance {
	if s.instances[id] == nil {
		s.instances[id] = &Instance{ID: id, Deployment: deploymentPrefix + id}
	}
	return s.instances[id]
}

// AddSelected adds the instances of Options.IDs that the survey does not contain, so that they can be asked about.
// askDirector says that Ask will be called; otherwise each instance that the state backend does not know gets an error.
func (s *Survey) AddSelected(askDirector bool) {
	for _, id := range s.options.IDs {
		if instance := s.instance(id); !instance.stored && !askDirector {
			instance.Error = "the state backend contains neither the instance nor a binding of it"
		}
	}
}

// Instances returns the instances sorted by id, with their bindings grouped by authority: it sets Groups,
// OtherAuthority and Superseded. The result is not nil. It must be called after Add, Ask and Compare, and before
// Instance.Due and Instance.Expiries.
func (s *Survey) Instances() []*Instance {
	all := []*Instance{}
	for _, instance := range s.instances {
		instance.group()
		all = append(all, instance)
	}
	slices.SortFunc(all, func(a, b *Instance) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// sources returns the certificates in stored data and of the server of a comparison, with their source: first
// "instance" for the outputs, then "server", then "binding" once for each binding. A list may be empty.
func (i *Instance) sources() iter.Seq2[string, []Certificate] {
	return func(yield func(string, []Certificate) bool) {
		if !yield("instance", i.Outputs) || !yield("server", i.Server) {
			return
		}
		for _, binding := range i.Bindings {
			if !yield("binding", binding.Certificates) {
				return
			}
		}
	}
}

// Due returns the number of certificates of an instance that are due, including those in its bindings, those of the
// server of a comparison and those that the Director reports. A certificate that several bindings contain counts once;
// those that the Director reports are counted in addition.
func (i *Instance) Due() int {
	due := map[*Content]bool{}
	for _, certificates := range i.sources() {
		for _, certificate := range certificates {
			if certificate.Due {
				due[certificate.Content] = true
			}
		}
	}
	number := len(due)
	for _, reported := range i.Reported {
		if reported.Due {
			number++
		}
	}
	return number
}

// Expiries returns the earliest expiry of the certificates that are not superseded, by their source: "director",
// "binding", "instance" for the outputs of the instance, and "server". A source without certificates is absent. The map
// is never nil.
func (i *Instance) Expiries() map[string]time.Time {
	earliest := map[string]time.Time{}
	add := func(source string, expiry time.Time) {
		if first, exists := earliest[source]; !exists || expiry.Before(first) {
			earliest[source] = expiry
		}
	}
	for source, certificates := range i.sources() {
		for _, certificate := range certificates {
			if !certificate.Superseded {
				add(source, certificate.Expiry)
			}
		}
	}
	for _, reported := range i.Reported {
		add("director", reported.Expiry)
	}
	return earliest
}

// Failed reports whether certificates of the instance or of one of its bindings could not be read or asked for.
func (i *Instance) Failed() bool {
	return i.Error != "" || slices.ContainsFunc(i.Bindings, func(binding Binding) bool { return binding.Error != "" })
}
