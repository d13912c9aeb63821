package brokerpak

import (
	"slices"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// A Bosh is the section provision.bosh of a service definition. It determines how the BOSH manifest of an instance is
// created: its template, secrets, sizes, configs, labels, rules and outputs. Keys that the definition does not have
// leave their fields zero. Action.Bosh is nil for a service without the section.
type Bosh struct {
	ManifestTemplate
	Credentials
	PlanDefaults []string `key:"plan_defaults"`

	Configs map[string]Conditional    `key:"configs"` // by type: "cloud", "cpi" or "runtime"
	Labels  map[string]*expr.Template `key:"labels" doc:"Labels of the service instance."`
	Preconditions
	Update    map[string]*expr.Template `key:"update"`
	CarryOver map[string][]string       `key:"carry_over"` // go-patch paths by name; the first with a value is used
	InstanceOutputs
	Pos diag.Pos

	carryOverPos map[string]diag.Pos // the positions of the entries of CarryOver
}

// A ManifestTemplate is the text from which the BOSH manifest is rendered, with the instance groups that a plan may
// omit or whose size the definition computes, and the ops files that change the manifest.
type ManifestTemplate struct {
	// Manifest is the text of the template, from the key manifest or manifest_ref.
	Manifest               Document
	OptionalInstanceGroups []string      `key:"optional_instance_groups"`
	Groups                 []GroupSize   `key:"instance_groups"`
	Ops                    []Conditional `key:"ops" doc:"Ops files, applied in order if their condition is true."`
}

// Credentials are the values of the manifest that are in CredHub: the secrets that the broker stores there for the
// instance, and references to credentials that CredHub already contains.
type Credentials struct {
	Secrets    []Secret    `key:"secrets" doc:"Values that the broker stores in CredHub."`
	References []Reference `key:"references" doc:"Credentials that CredHub already contains."`
}

// Preconditions decide whether a request or a deployment is accepted: constraints on versions and sizes, and checks,
// which are expressions. Without any, everything is accepted.
type Preconditions struct {
	Requires Requires `key:"requires" doc:"Preconditions that are checked before anything is rendered."`
	Checks   []Check  `key:"checks"`
}

// InstanceOutputs are values that are computed from the deployed instance: the outputs by name, and the URL of the
// dashboard. A nil DashboardURL means that the service has no dashboard.
type InstanceOutputs struct {
	Outputs      map[string]Output `key:"outputs"`
	DashboardURL *expr.Template    `key:"dashboard_url"`
}

// A GroupSize is an instance group whose size the definition computes, completely or in part.
type GroupSize struct {
	Name string `key:"name,required" doc:"The instance group of the manifest template."`
	// Like is the name of another instance group. Properties that are not set are copied from it. "" means none.
	Like string `key:"like"`
	// Sizes has one element for each property of a group, whether the definition computes it or not. The property
	// instances precedes at_most.
	Sizes []Size
	Pos   diag.Pos
}

// A Size is a property of an instance group in a plan, such as instances or vm_type. Key is the name of the property,
// and Type is the JSON type of its value. The embedded Template is the expression that computes it; nil means that the
// plan's value is used.
type Size struct {
	Key, Type string
	*expr.Template
	doc       string
	mandatory bool // every instance group must have the property
}

// Complete reports whether the definition determines every mandatory property of the group, so that a plan does not
// have to contain the group. A group that copies another one, with Like, is complete.
func (g *GroupSize) Complete() bool {
	return g.Like != "" || !slices.ContainsFunc(g.Sizes, func(s Size) bool { return s.mandatory && s.Template == nil })
}

// Group returns the entry of Groups for the instance group with this name, or nil if there is none: the size of the
// group is then that of the plan. The result points into Groups.
func (t *ManifestTemplate) Group(name string) *GroupSize {
	return firstMatch(t.Groups, func(g *GroupSize) bool { return g.Name == name })
}

// HasSecret reports whether a secret has this name, or has the input of this name as its value. The name must not be
// empty.
func (c *Credentials) HasSecret(name string) bool {
	return slices.ContainsFunc(c.Secrets, func(s Secret) bool { return s.Name == name || s.Input == name })
}

// SecretOf returns the first secret whose value is the given input, and nothing else. It returns nil if there is none,
// or if the name of the input is "".
func (c *Credentials) SecretOf(input string) *Secret {
	return firstMatch(c.Secrets, func(s *Secret) bool { return input != "" && s.Input == input })
}

// firstMatch returns a pointer to the first element of a list that matches, or nil if none does.
func firstMatch[E any](list []E, matches func(element *E) bool) *E {
	for i := range list {
		if matches(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// HasReference reports whether a reference has this name.
func (c *Credentials) HasReference(name string) bool {
	return slices.ContainsFunc(c.References, func(r Reference) bool { return r.Name == name })
}

// A Conditional is a document that is used only if a condition is true: an ops file, or a BOSH config that the
// adapter returns to the broker.
type Conditional struct {
	Document Document
	If       *expr.Template // nil means always
	// Completed means that an ops file is applied to the complete manifest, after the adapter has added releases,
	// stemcells and the plan's values, instead of to the template. It is unused for configs.
	Completed bool
}

// A Secret is a value that the broker stores in CredHub. Either Length is set, for a generated password, or Value.
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

// A Reference is a credential that CredHub already contains. ((Name)) in a template is replaced by ((path)), where path
// is the result of Path, if the operator allows that path. An empty result means that the instance does not have the
// credential.
type Reference struct {
	Name string         `key:"name,required"`
	Path *expr.Template `key:"path,required"`
	// Input is the name of the input if Path consists only of a reference to it, such as ${path}. It is "" for other
	// expressions.
	Input string
	Pos   diag.Pos
}

// An Output is a value of provision.bosh.outputs. Literal is the value as it is written, and Expr is the parsed value
// if that is a string. Expr is nil for any other value, which is used unchanged, and for a string with a syntax error,
// which is reported.
type Output struct {
	Expr    *expr.Template
	Literal any
	Pos     diag.Pos
}

// Requires are preconditions of a deployment. They are checked before anything is rendered. An empty list requires
// nothing.
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

// A Constraint is a version constraint such as ">= 4.1, < 6" on a release, on the release of a job, or on a stemcell.
// Name is the release, the job or the operating system of the stemcell.
type Constraint struct {
	Name       string
	Constraint string
	Pos        diag.Pos
}
