package brokerpak

import (
	"slices"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// A Bosh is the section provision.bosh of a service definition. It determines how the BOSH manifest of an instance is
// created: its template, secrets, sizes, configs, labels, rules, update block and outputs, the values that are carried
// over from a manifest of another adapter, and PlanDefaults, the user inputs that users may set although the plan has a
// property of that name. Keys that the definition does not have leave their fields zero. Action.Bosh is nil for a
// service without the section.
type Bosh struct {
	ManifestTemplate
	Credentials
	PlanDefaults []string `key:"plan_defaults"`

	Configs map[string]Conditional    `key:"configs"` // by type: "cloud", "cpi" or "runtime"
	Labels  map[string]*expr.Template `key:"labels" doc:"Metadata labels of the service instance."`
	Preconditions
	Update    map[string]*expr.Template `key:"update"`
	CarryOver map[string][]string       `key:"carry_over"` // go-patch paths by name; the first with a value is used
	InstanceOutputs
	Pos diag.Pos

	carryOverPos map[string]diag.Pos // the positions of the entries of CarryOver
}

// A ManifestTemplate is the part of the section provision.bosh from which the BOSH manifest of an instance is rendered:
// the text of the template, the instance groups that a plan may omit, those whose size the definition computes, and the
// ops files that change the manifest. Its lists are empty if the definition does not have their keys.
type ManifestTemplate struct {
	// Manifest is the text of the template, from the key manifest or manifest_ref.
	Manifest               Document
	OptionalInstanceGroups []string      `key:"optional_instance_groups"`
	Groups                 []GroupSize   `key:"instance_groups"`
	Ops                    []Conditional `key:"ops" doc:"Ops files. The adapter applies those whose condition is true, in their order."`
}

// Credentials are the credentials that the manifest of an instance uses: the secrets of the instance, which the
// broker stores in CredHub if its secure manifests are enabled, and references to credentials that CredHub already
// contains. The zero Credentials have neither.
type Credentials struct {
	Secrets    []Secret    `key:"secrets" doc:"Values that the broker stores in CredHub."`
	References []Reference `key:"references" doc:"Credentials that CredHub already contains."`
}

// Preconditions are the keys requires and checks of provision.bosh. They decide whether a request or a deployment is
// accepted: constraints on the versions of releases and stemcells, releases that must not become older, instance groups
// that must not get fewer instances, and checks, which are expressions that must be true, with an exception that the
// type Check describes. The zero Preconditions accept every request.
type Preconditions struct {
	Requires Requires `key:"requires" doc:"Preconditions that the adapter checks before it renders the manifest."`
	Checks   []Check  `key:"checks"`
}

// InstanceOutputs are the keys outputs and dashboard_url of provision.bosh: outputs of an instance, which the
// expressions of its bindings can read, and the URL of its dashboard. Outputs has the outputs by name and may be nil.
// A nil DashboardURL means that the service has no dashboard.
//
// An expression that reads the deployed manifest or addresses from BOSH is evaluated after the deployment, whenever a
// command needs its value. So is the expression of an output that reads outputs of a template that an errand applies;
// a dashboard URL that reads them is empty. All other expressions are evaluated when the manifest is generated, and
// their values are recorded in it.
type InstanceOutputs struct {
	Outputs      map[string]Output `key:"outputs"`
	DashboardURL *expr.Template    `key:"dashboard_url"`
}

// A GroupSize is an entry of provision.bosh.instance_groups: the name of an instance group, and the expressions that
// compute properties of the group, such as the number of instances. It may compute some or all of the properties; the
// plan of the instance provides the others.
//
// If the plan does not have the group, the properties without an expression are copied from the plan's group with the
// name Like. If Like is "", the group consists of the computed properties, provided that they are complete (see
// Complete). If the plan lacks the group Like, or if Like is "" and the computed properties are not complete, the
// manifest does not get the group. The request then fails if the manifest template contains the group and the
// definition does not list it as optional.
type GroupSize struct {
	Name string `key:"name,required" doc:"The instance group of the manifest template."`
	// Like is the name of the group of the plan that is copied, without migrated_from and lifecycle, if the plan does
	// not have this group. "" means none.
	Like string `key:"like"`
	// Sizes has one element for each property of a group, whether the definition computes it or not. The property
	// instances precedes at_most.
	Sizes []Size
	Pos   diag.Pos
}

// A Size is a property of an instance group in a plan, such as instances or vm_type, or at_most, the maximum of the
// property instances. Key is the name of the property, and Type is the JSON type of its value, such as "integer". The
// embedded Template is the expression that computes the value. If it is nil, the definition does not compute the
// property and the plan's value is used; without a Template for at_most, the number of instances is not limited.
type Size struct {
	Key, Type string
	*expr.Template
	doc       string
	mandatory bool // every instance group must have the property
}

// Complete reports whether the definition determines the properties that every instance group must have, which are
// instances, vm_type, networks and azs, so that a plan does not have to contain the group. A group that copies missing
// properties from another group (Like is not "") is always complete; Complete does not check whether that group exists.
// Sizes must contain all properties, as it does after decoding: a property that is not in Sizes is not checked.
func (g *GroupSize) Complete() bool {
	return g.Like != "" || !slices.ContainsFunc(g.Sizes, func(s Size) bool { return s.mandatory && s.Template == nil })
}

// Group returns the first entry of Groups for the instance group with this name, or nil if there is none, which means
// that the plan alone determines the size of the group. The result is a pointer to the element of Groups.
func (t *ManifestTemplate) Group(name string) *GroupSize {
	return firstMatch(t.Groups, func(g *GroupSize) bool { return g.Name == name })
}

// HasSecret reports whether a secret has this name, or has a value that consists only of a reference to the input of
// this name: the name "license_key" matches a secret with the value ${license_key}. The name must not be empty, because
// secrets without such a value would match.
func (c *Credentials) HasSecret(name string) bool {
	return slices.ContainsFunc(c.Secrets, func(s Secret) bool { return s.Name == name || s.Input == name })
}

// SecretOf returns the first secret whose value consists only of a reference to an input: for the input "license_key",
// the value ${license_key}. It returns nil if there is no such secret, or if the name of the input is "". The result is
// a pointer to the element of Secrets.
func (c *Credentials) SecretOf(input string) *Secret {
	return firstMatch(c.Secrets, func(s *Secret) bool { return input != "" && s.Input == input })
}

// firstMatch returns a pointer to the first element of the list for which the function matches returns true. The
// pointer refers to the element in the list, not to a copy. The result is nil if no element matches or if the list is
// empty.
func firstMatch[E any](list []E, matches func(element *E) bool) *E {
	for i := range list {
		if matches(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// HasReference reports whether one of the references to existing credentials in CredHub has exactly this name.
func (c *Credentials) HasReference(name string) bool {
	return slices.ContainsFunc(c.References, func(r Reference) bool { return r.Name == name })
}

// A Conditional is a document of the pak that is used only if a condition is true: an ops file that changes the
// manifest, or a BOSH config that the adapter returns to the broker. If its condition is nil, the document is always
// used. An ops file is applied to the manifest template or, if Completed is true, to the complete manifest.
type Conditional struct {
	Document Document
	If       *expr.Template // nil means always
	// Completed means that an ops file is applied to the complete manifest, after the adapter has added releases,
	// stemcells and the plan's values, instead of to the template. It is unused for configs.
	Completed bool
}

// A Secret is an entry of provision.bosh.secrets: a value to which ((Name)) in the manifest template refers. The
// broker stores the value in CredHub if its secure manifests are enabled and the value is not empty. In a valid
// definition, either Length is set, which means a generated password of that many characters, or Value, which is the
// expression that computes the value. Keepers are expressions; a password is generated again if the result of one of
// them changes. Input is NAME if Value is only a reference ${NAME}, and "" otherwise.
type Secret struct {
	Name   string         `key:"name" doc:"The name: ((NAME)) in the manifest template stands for the secret."`
	Length int            `key:"length,alternative" doc:"The number of characters of a generated password."`
	Value  *expr.Template `key:"value,alternative" doc:"A supplied value."`
	// Keepers are expressions. A password is generated again if the result of one of them changes.
	Keepers map[string]*expr.Template `key:"keepers"`
	// Input is the name of the input if Value consists only of a reference to it, such as ${license_key}. It is "" for
	// other expressions.
	Input string
	Pos   diag.Pos
}

// A Reference is an entry of provision.bosh.references: a credential that CredHub already contains. The adapter
// replaces ((Name)) in the manifest template by ((PATH)), where PATH is the result of the expression Path. The operator
// must allow that path; otherwise the request fails. An empty PATH means that the instance does not have the
// credential, and ((Name)) is null. Input is NAME if Path is only a reference ${NAME}, and "" otherwise.
type Reference struct {
	Name string         `key:"name,required"`
	Path *expr.Template `key:"path,required"`
	// Input is the name of the input if Path consists only of a reference to it, such as ${path}. It is "" for other
	// expressions.
	Input string
	Pos   diag.Pos
}

// An Output is the value of one output in provision.bosh.outputs. Literal is the decoded YAML value as the definition
// contains it. If that is a string, Expr is the expression parsed from it, which is evaluated for the value of the
// output. Expr is nil for any other value, which is used unchanged, and for a string with a syntax error, which
// decoding reports.
type Output struct {
	Expr    *expr.Template
	Literal any
	Pos     diag.Pos
}

// Requires are the preconditions of a deployment in provision.bosh.requires: version constraints on releases, on the
// releases that provide certain jobs, and on stemcells; releases, named themselves or by a job, that must not become
// older; and instance groups that must not get fewer instances. They are checked before the manifest is rendered. An
// empty list requires nothing, so the zero Requires accept every deployment.
type Requires struct {
	// Releases, Jobs and Stemcells are in the order of the file. A constraint on a job concerns the version of the
	// release that provides it.
	Releases  []Constraint `key:"releases" doc:"Release to version constraint, such as \">= 4.1, < 6\"."`
	Jobs      []Constraint `key:"jobs" doc:"Job to version constraint on the release that provides it."`
	Stemcells []Constraint `key:"stemcells" doc:"Operating system of a stemcell to version constraint."`

	NoDowngrade     []string `key:"no_downgrade" doc:"Releases that must not become older than the deployed ones."`
	NoDowngradeJobs []string `key:"no_downgrade_jobs"`
	NoScaleIn       []string `key:"no_scale_in" doc:"Instance groups that must not get fewer instances."`
}

// A Constraint is an entry of provision.bosh.requires that limits the version of a release, of the release that
// provides a job, or of a stemcell. Name is the name of the release or job, or the operating system of the stemcell.
// The field Constraint is a text such as ">= 4.1, < 6"; see ParseConstraint for its syntax.
type Constraint struct {
	Name       string
	Constraint string
	Pos        diag.Pos
}
