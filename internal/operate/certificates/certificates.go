// Package certificates surveys the certificates of service instances and bindings: those that the Director reports for
// deployments, and those in the credentials of bindings and in the outputs of instances. It finds the bindings that
// must be created again after a rotation of a certificate authority.
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

// Options select the instances that a survey contains, by id, service and plan, and define which certificates the
// survey considers due: those that expire before Now plus ExpiresWithin. An instance must pass all of IDs, Service and
// Plan that are not empty. With the zero value a survey contains all instances, and no certificate is due, because Now
// is the zero time.
type Options struct {
	// IDs are the ids of the instances. Without any, the survey contains all instances.
	IDs []string
	// Service and Plan are the names that an instance must have; "" means any.
	Service, Plan string
	// ExpiresWithin is how long the survey looks ahead: a certificate is due if it expires within this time after Now.
	ExpiresWithin time.Duration
	Now           time.Time
}

// A Survey collects the certificates of service instances and their bindings. Its methods must be called in this order:
// Add for each item in the state backend, AddSelected, Ask for the certificates that the Director knows, Compare with a
// reference, and Instances for the result. AddSelected, Ask and Compare may be omitted. The methods add to Unreadable
// the bindings whose instances are unknown, and to Errors the reasons why instances may be missing. New returns a
// Survey; the zero value cannot be used. A Survey is not safe for concurrent use.
type Survey struct {
	options   Options
	scanner   *scanner
	instances map[string]*Instance // by id
	// Unreadable are the bindings whose states cannot be read, so that their instances are unknown.
	Unreadable []Binding
	// Errors are the reasons why instances may be missing from the survey.
	Errors []string
}

// New returns an empty survey. options select the instances that the survey accepts, and define which certificates are
// due. No certificate is read and no Director is asked; the methods of the survey do that.
func New(options Options) *Survey {
	return &Survey{
		options: options, scanner: newScanner(options.Now, options.ExpiresWithin), instances: map[string]*Instance{},
	}
}

// An Instance is a service instance with its certificates and those of its bindings, and an element of the JSON of
// `certificates`. Survey.Instances returns it complete; before that call, Groups and the fields that depend on them,
// such as OtherAuthority of a binding, are not set. A list of certificates is nil, and left out of the JSON, if there
// are none of its kind; Bindings also contains bindings without certificates. Service and Plan are "" if they are not
// known. Error is the reason why certificates of the instance itself could not be read or asked for, or "" if there
// is none.
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

// A Reported is a certificate that the Director reports for a deployment: its name at the Director and its expiry, but
// not its content. Name, Expiry and DaysLeft are those of the Director's answer. Due is computed by the survey, and is
// true if the certificate has expired or expires within the time that the survey looks ahead.
type Reported struct {
	Name     string    `json:"name"`
	Expiry   time.Time `json:"expiry"`
	DaysLeft int       `json:"days_left"`
	// Due reports whether the certificate expires within the time that the survey looks ahead, or has expired.
	Due bool `json:"due"`
}

// A Binding is a binding of a service instance with the certificates in its credentials, and with the results of two
// comparisons. OtherAuthority is set if the binding lacks an authority of the newest binding. Trusted is the result
// of the comparison with a Reference; it is nil without such a comparison, and if the binding contains no certificate
// of an authority. A Binding with an Error may have certificates that the survey could not read.
type Binding struct {
	ID           string        `json:"binding"`
	CreatedAt    string        `json:"created_at,omitempty"`
	Certificates []Certificate `json:"certificates,omitempty"`
	// OtherAuthority reports that the binding lacks an authority that the newest binding of the instance has: it does
	// not contain the certificate of an authority that the newest one contains, or an authority that signed another
	// certificate of the newest one signed none of its other certificates. It is false without certificates.
	OtherAuthority bool `json:"other_authority"`
	// Trusted is the result of the comparison with a real server or authority; see Survey.Compare. It is nil without a
	// comparison, and if the binding does not contain the certificate of any authority.
	Trusted *bool `json:"trusted,omitempty"`
	// Error is the reason why certificates of the binding are unknown.
	Error string `json:"error,omitempty"`
}

// A Group is a set of bindings of one service instance whose certificates have the same authorities: they contain the
// certificates of the same authorities, and the same authorities signed their other certificates. Bindings without
// certificates are in no group, so Newest marks the group of the newest binding that has certificates. Bindings are
// only named by their ids.
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
// it. The items may be added in any order: for a binding, Add also adds its instance if the survey does not contain
// that yet, without the outputs until the instance itself is added. Add ignores an item that the options exclude. If
// the service and the plan are unknown, because the item cannot be read, only Options.IDs exclude it. A binding whose
// instance is unknown is only added to s.Unreadable, whatever the options are, and its certificates are not read.
//
// Otherwise, if the state, its record or a certificate in its outputs cannot be read, the reason becomes the Error of
// the binding or the instance, which has the certificates that can be read. Add itself cannot fail.
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
	readable := stored.Condition != lifecycle.Unreadable // so that service and plan are known
	if !s.selects(id) || readable && !s.matches(stored.Service, stored.Plan) {
		return
	}
	instance := s.instance(id)
	instance.stored = true
	instance.Deployment = cmp.Or(stored.Deployment, instance.Deployment)
	instance.Service, instance.Plan = cmp.Or(instance.Service, stored.Service), cmp.Or(instance.Plan, stored.Plan)
	var scanned []Certificate
	var err error
	if stored.State != nil {
		scanned, err = s.scanner.scan(stored.State.Outputs)
	}
	failed := cmp.Or(stored.Error, errorText(err))
	if stored.Kind == lifecycle.Instance {
		instance.Outputs, instance.Error = scanned, failed
		return
	}
	binding.Certificates, binding.Error = scanned, failed
	instance.Bindings = append(instance.Bindings, binding)
}

// errorText returns the text of an error in one line, with "; " instead of each line break. It returns "" for nil.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// selects reports whether id is one of Options.IDs. It returns true for every id if Options.IDs is empty. Service and
// plan are not considered; see matches.
func (s *Survey) selects(id string) bool {
	return len(s.options.IDs) == 0 || slices.Contains(s.options.IDs, id)
}

// matches reports whether an instance with this service and this plan, which are names, passes Options.Service and
// Options.Plan. An option of "" permits every name. A name of "", which means that it is unknown, passes only an option
// of "".
func (s *Survey) matches(service, plan string) bool {
	return (s.options.Service == "" || s.options.Service == service) &&
		(s.options.Plan == "" || s.options.Plan == plan)
}

// deploymentPrefix begins the names of the deployments of service instances, before their ids.
const deploymentPrefix = "service-instance_"

// instance returns the instance with an id in the survey. If the survey does not contain it, instance first adds a new
// one whose Deployment is "service-instance_" and the id. The result is never nil. The options are not considered.
func (s *Survey) instance(id string) *Instance {
	if s.instances[id] == nil {
		s.instances[id] = &Instance{ID: id, Deployment: deploymentPrefix + id}
	}
	return s.instances[id]
}

// AddSelected adds the instances of Options.IDs that the survey does not contain, so that Ask asks the Director about
// them. It does nothing if Options.IDs is empty. askDirector says that Ask will be called. If it is false, each
// instance of Options.IDs of which the state backend contains neither the instance nor a binding gets an Error that
// says so.
func (s *Survey) AddSelected(askDirector bool) {
	for _, id := range s.options.IDs {
		if instance := s.instance(id); !instance.stored && !askDirector {
			instance.Error = "the state backend contains neither the instance nor a binding of it"
		}
	}
}

// Instances returns the instances of the survey sorted by id, with their bindings grouped by authority. It sorts the
// bindings and sets Groups, OtherAuthority and Superseded; a certificate that becomes superseded is no longer due. The
// result is empty and not nil if there are no instances. Instances must be called after Add, Ask and Compare, and
// before Instance.Due and Instance.Expiries.
func (s *Survey) Instances() []*Instance {
	all := []*Instance{}
	for _, instance := range s.instances {
		instance.group()
		all = append(all, instance)
	}
	slices.SortFunc(all, func(a, b *Instance) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// sources returns a sequence of the certificates in stored data and of the server of a comparison, with the name of
// their source: first "instance" with the outputs of the instance, then "server", then "binding" once for each binding.
// A list may be empty. Certificates that the Director reports are not part of it.
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

// Due returns the number of certificates of the instance that are due: those in its outputs and bindings, those of the
// server of a comparison, and those that the Director reports. Equal certificates count once, wherever they are stored;
// those that the Director reports are counted in addition. Survey.Instances must have been called before, because
// superseded certificates are not due.
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

// Expiries returns the earliest expiry of the instance's certificates that are not superseded, by their source:
// "director" for those that the Director reports, "binding" for those of all bindings, "instance" for the outputs of
// the instance, and "server" for the server of a comparison. A source without such certificates is absent. The map is
// never nil. Survey.Instances must have been called before.
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

// Failed reports whether the instance or one of its bindings has an Error, so that some of its certificates could not
// be read or asked for.
func (i *Instance) Failed() bool {
	return i.Error != "" || slices.ContainsFunc(i.Bindings, func(binding Binding) bool { return binding.Error != "" })
}
