package brokerpak

import (
	"slices"
	"strings"
	"unicode/utf8"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
)

// Manifest is the content of a pak's manifest.yml, Brokerpak V1.
type Manifest struct {
	PackVersion int               `key:"packversion,required" doc:"The version of the format: 1."`
	Name        string            `key:"name,required" doc:"The name of the brokerpak: lower-case letters, digits, hyphens and underscores are recommended."`
	Version     string            `key:"version,required" doc:"The version of the brokerpak; semantic versioning is recommended."`
	Metadata    map[string]string `key:"metadata" doc:"Free information about the brokerpak, such as its authors and repository."`
	Platforms   []Platform        `key:"platforms,required" doc:"The platforms on which the brokerpak runs."`
	Binaries    []Binary          `key:"terraform_binaries,required" doc:"OpenTofu, its providers and other binaries that are bundled."`
	Definitions []Path            `key:"service_definitions,required" doc:"The files of the service definitions, relative to the manifest."`
	Parameters  []Parameter       `key:"parameters" doc:"Environment variables that operators may set for OpenTofu."`
	RequiredEnv []string          `key:"required_env_variables" doc:"Environment variables that must be set and are passed to OpenTofu."`

	EnvConfigMapping     map[string]string `key:"env_config_mapping"`
	UpgradePath          []string          `key:"terraform_upgrade_path"` // versions ascending
	ProviderReplacements map[string]string `key:"terraform_state_provider_replacements"`
}

// Path is a file of the pak, relative to its root, and where it was named.
type Path struct {
	Name string
	Pos  diag.Pos
}

// Platform is an operating system and architecture in Go's naming.
type Platform struct {
	OS   string `key:"os,required" doc:"The operating system, in Go's naming."`
	Arch string `key:"arch,required" doc:"The architecture, in Go's naming."`
}

// String returns "os/arch".
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// BinaryKind says what an entry of terraform_binaries is.
type BinaryKind int

// The kinds of binaries, told apart by their name.
const (
	Tofu        BinaryKind = iota // named "tofu"
	Provider                      // named "terraform-provider-…"
	OtherBinary                   // anything else; put on the PATH of OpenTofu
)

// Binary is one entry of terraform_binaries.
type Binary struct {
	Name        string   `json:"name" key:"name,required" doc:"tofu, terraform-provider-TYPE, or any other program."`
	Version     string   `json:"version" key:"version,required" doc:"The version, such as 1.12.6."`
	Source      string   `json:"source" key:"source" doc:"The URL of a zip of the source code."`
	Provider    string   `json:"-" key:"provider" doc:"The provider as [[HOSTNAME/]NAMESPACE/]TYPE; needed where it is not HashiCorp's."`
	ProviderFQN string   `json:"-"` // host/namespace/type, providers only
	URLTemplate string   `json:"-" key:"url_template" doc:"Where the binary is fetched from: a URL or a local path with ${name}, ${version}, ${os} and ${arch}."`
	Default     bool     `json:"-" key:"default" doc:"Marks the OpenTofu that runs the templates, where there are several; it must be the highest."`
	Pos         diag.Pos `json:"-"`
}

// Parameter is an environment variable that operators may set for OpenTofu.
type Parameter struct {
	Name        string `json:"name" key:"name,required" doc:"The environment variable, such as TF_VAR_redis_version."`
	Description string `json:"description" key:"description,required" doc:"What the variable means."`
}

// Service is one service definition: a file under service_definitions.
type Service struct {
	File                string
	Version             int       `key:"version,required" doc:"The version of the format: 1."`
	Name                string    `key:"name,required" doc:"The name of the service in the marketplace: letters, digits, periods and hyphens. Unique."`
	ID                  string    `key:"id,required" doc:"A UUID that identifies the service for ever."`
	Description         string    `key:"description,required" doc:"A short description of the service."`
	DisplayName         string    `key:"display_name,required" doc:"The name of the service in graphical clients."`
	ProviderDisplayName string    `key:"provider_display_name" doc:"The name of the provider in graphical clients."`
	ImageURL            string    `key:"image_url,required"`
	DocumentationURL    string    `key:"documentation_url,required" doc:"The URL of the service's documentation."`
	SupportURL          string    `key:"support_url,required" doc:"The URL of the service's support page."`
	Tags                []string  `key:"tags" doc:"Classifications of the service, such as redis or key-value."`
	PlanUpdateable      bool      `key:"plan_updateable" doc:"Whether cf update-service may change the plan."`
	Plans               []Plan    `key:"plans" doc:"The plans of the service."`
	Examples            []Example `key:"examples" doc:"Examples, which document the service and are played by tests."`
	Provision           Action    `key:"provision" doc:"How an instance is made."`
	Bind                Action    `key:"bind" doc:"How a binding is made."`
	Pos                 diag.Pos
}

// Plan is a plan of a service. A plan from the operator has no description of its own place.
type Plan struct {
	Name               string         `key:"name,required"`
	ID                 string         `key:"id,required" doc:"A UUID that identifies the plan for ever."`
	Description        string         `key:"description,required" doc:"A short description of the plan."`
	DisplayName        string         `key:"display_name,required" doc:"The name of the plan in graphical clients."`
	Bullets            []string       `key:"bullets" doc:"Features of the plan, shown as a list."`
	Free               bool           `key:"free" doc:"Whether instances cost nothing; default false."`
	Properties         map[string]any `key:"properties" doc:"Values of inputs that users of this plan cannot change."`
	ProvisionOverrides map[string]any `key:"provision_overrides" doc:"Values that replace those of users when an instance is made."`
	BindOverrides      map[string]any `key:"bind_overrides" doc:"Values that replace those of users when a binding is made."`
	Pos                diag.Pos
}

// Example documents a service and is played by tests.
type Example struct {
	Name            string         `key:"name,required" doc:"The name of the example."`
	Description     string         `key:"description,required" doc:"What the example shows."`
	PlanID          string         `key:"plan_id,required" doc:"The id of the plan that it uses."`
	ProvisionParams map[string]any `key:"provision_params" doc:"Parameters of cf create-service."`
	BindParams      map[string]any `key:"bind_params" doc:"Parameters of cf bind-service."`
	BindCanFail     bool           `key:"bind_can_fail" doc:"Whether the example is good even when the binding fails."`
	Pos             diag.Pos
}

// Action is the provision or the bind section of a service.
type Action struct {
	PlanInputs     []Variable `key:"plan_inputs" doc:"Variables that plans set in their properties."`
	UserInputs     []Variable `key:"user_inputs" doc:"Parameters of users."`
	ComputedInputs []Variable `key:"computed_inputs" doc:"Variables that expressions compute."`
	Outputs        []Variable `key:"outputs"`
	// Templates are the OpenTofu files of the action, name ("main.tf") → text, whatever of template, template_ref,
	// templates and template_refs they came from. An inline `template` is the file "template.tf". TemplateSources tell where
	// each text stands.
	Templates       map[string]string
	TemplateSources map[string]Document

	ImportInputs             []Variable        `key:"import_inputs" doc:"Parameters that import existing resources; without effect in bind."`
	ImportParameterMappings  []hclfile.Mapping `key:"import_parameter_mappings" doc:"Attributes of imported resources that become inputs."`
	ImportParametersToAdd    []hclfile.Mapping `key:"import_parameters_to_add" doc:"Attributes to add to imported resources."`
	ImportParametersToDelete []string          `key:"import_parameters_to_delete"`

	// Bosh is the section provision.bosh; nil when there is none, and always nil for bind.
	Bosh *Bosh
	// Errors say what failures of the template mean.
	Errors []ErrorRule
	// RequiresAppGUID, Requires and Adopt are options of bind. Adopt tells whether a binding that is to be deleted and was
	// never recorded is created first, so that its provider takes over what exists; nil: never.
	RequiresAppGUID bool
	Adopt           *expr.Template
	Requires        []Check

	Pos diag.Pos
}

// Variable describes an input, which may be a computed one, or an output.
type Variable struct {
	Name     string `key:"field_name,required" doc:"The name."`
	Type     string `key:"type" doc:"The JSON type, or a list of types; any when it is left out."`
	Details  string `key:"details,required" doc:"What it is for."`
	Required bool   `key:"required" doc:"Whether a request without it is refused."`
	Nullable bool   `key:"nullable" doc:"Whether it may be null, which differs from leaving it out."`
	// Default is the literal default; HasDefault is false when it is absent or null. DefaultExpr is set when the default
	// is a string: it is evaluated as an expression and cast to Type.
	Default         any `key:"default" doc:"The value where none is given. A text is evaluated as an expression and cast to the type."`
	HasDefault      bool
	DefaultExpr     *expr.Template
	Enum            []EnumValue    `key:"enum" doc:"The allowed values and what each means."`
	Constraints     map[string]any `key:"constraints" doc:"JSON Schema keywords that the value must satisfy."`
	TFAttribute     string         `key:"tf_attribute" doc:"The attribute of an imported resource that holds the value: TYPE.NAME.ATTRIBUTE."`
	TFAttributeSkip string         `key:"tf_attribute_skip" doc:"Another input; when it is true, tf_attribute is not read."`
	ProhibitUpdate  bool           `key:"prohibit_update" doc:"Whether it cannot be changed after creation."`
	Sticky          bool           `key:"sticky"`
	Additional      bool           `key:"additional"` // no parameter has the name of the input
	// Types are several types of which the value has one; Type is empty then.
	Types []string
	// Overwrite makes a computed input replace a value that is there already.
	Overwrite bool
	// Resource is what an import input becomes in the template.
	Resource string
	Pos      diag.Pos
}

// EnumValue is an allowed value and its description for people.
type EnumValue struct {
	Value       any
	Description string
}

// ErrorRule says what a failure of a template means: when the text of its error matches Match (RE2), the command ends with Exit,
// one of "41" and "49", for bindings, and "user". Message is what the user reads then; "" means the text of the error.
type ErrorRule struct {
	Match   string `key:"match,required" doc:"A regular expression (RE2) on the text of the error."`
	Exit    string `key:"exit,required"`
	Message string `key:"message" doc:"What the user reads with exit user; by default the text of the error."`
	Pos     diag.Pos
}

// Audience says who reads the message of a check.
type Audience string

// The audiences of a check. Operator is the default.
const (
	Operator Audience = "operator"
	User     Audience = "user"
)

// Check is a rule of the service: unless That holds, the request is refused with Message.
type Check struct {
	That     *expr.Template `key:"that,required" doc:"The request is refused unless this holds; an empty or null result is false."`
	Message  *expr.Template `key:"message,required" doc:"Why it is refused."`
	Audience Audience       `key:"audience" doc:"Who reads the message; default operator."`
	Pos      diag.Pos
}

// Bosh is the section provision.bosh: how the service's BOSH manifest is made.
type Bosh struct {
	Manifest               Document      // the BOSH manifest template
	OptionalInstanceGroups []string      `key:"optional_instance_groups" doc:"Groups of the template that a plan may leave out; all others are required."`
	Groups                 []GroupSize   `key:"instance_groups"`
	Ops                    []Conditional `key:"ops" doc:"Ops files, applied in order where their condition holds."`
	Secrets                []Secret      `key:"secrets" doc:"Values that the broker keeps in CredHub."`
	References             []Reference   `key:"references" doc:"Credentials that CredHub has already."`
	PlanDefaults           []string      `key:"plan_defaults"`

	Configs      map[string]Conditional    `key:"configs"` // "cloud", "cpi" or "runtime"
	Labels       map[string]*expr.Template `key:"labels" doc:"Labels of the service instance."`
	Requires     Requires                  `key:"requires" doc:"What must hold before anything is rendered."`
	Checks       []Check                   `key:"checks"`
	Update       map[string]*expr.Template `key:"update"`
	CarryOver    map[string][]string       `key:"carry_over"` // name → go-patch paths, the first that exists counts
	Outputs      map[string]Output         `key:"outputs"`
	DashboardURL *expr.Template            `key:"dashboard_url" doc:"The dashboard; without it the command ends with exit code 10."`
	Pos          diag.Pos

	carryOverAt map[string]diag.Pos // where the entries of CarryOver stand
}

// GroupSize is an instance group whose size the definition computes.
type GroupSize struct {
	Name string `key:"name,required" doc:"The instance group of the manifest template."`
	Like string `key:"like"`
	// Sizes are all there are, instances before at_most.
	Sizes []Size
	Pos   diag.Pos
}

// Size is something that a plan says of an instance group: its key and the JSON type of its values. The expression computes it; nil
// leaves it to the plan.
type Size struct {
	Key, Type string
	*expr.Template
	doc    string
	needed bool // no group can do without
}

// Complete tells whether a plan need not have the group.
func (g *GroupSize) Complete() bool {
	return g.Like != "" || !slices.ContainsFunc(g.Sizes, func(s Size) bool { return s.needed && s.Template == nil })
}

// Group is what the definition says of the size of an instance group, nil for nothing.
func (b *Bosh) Group(name string) *GroupSize {
	return find(b.Groups, func(g *GroupSize) bool { return g.Name == name })
}

// HasSecret tells whether a name is that of a secret, or of the input that is its value.
func (b *Bosh) HasSecret(name string) bool {
	return slices.ContainsFunc(b.Secrets, func(s Secret) bool { return s.Name == name || s.Input == name })
}

// SecretOf is the secret whose value an input is; nil for none.
func (b *Bosh) SecretOf(input string) *Secret {
	return find(b.Secrets, func(s *Secret) bool { return input != "" && s.Input == input })
}

// find returns the first element of a list that is the one, nil where there is none.
func find[E any](list []E, is func(element *E) bool) *E {
	for i := range list {
		if is(&list[i]) {
			return &list[i]
		}
	}
	return nil
}

// HasReference tells whether a name is that of a reference.
func (b *Bosh) HasReference(name string) bool {
	return slices.ContainsFunc(b.References, func(r Reference) bool { return r.Name == name })
}

// Document is a text of the pak and where it stands.
type Document expr.Source

// At is the place of a line and a column of the text, both counted from 1.
func (d Document) At(line, column int) diag.Pos { return expr.Source(d).At(line, column) }

// AtByte is the place of a byte of the text.
func (d Document) AtByte(offset int) diag.Pos {
	before := d.Text[:offset]
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return d.At(strings.Count(before, "\n")+1, column)
}

// Conditional is a document that is used under a condition: an ordinary ops file, or a BOSH config that the adapter returns to the broker.
type Conditional struct {
	Document  Document
	If        *expr.Template // nil: always
	Completed bool           // of an ops file: applied to the manifest as the adapter has completed it, not to the template
}

// Secret is a value that the broker keeps in CredHub. Either Length (of a generated password) or Value is set.
type Secret struct {
	Name   string         `key:"name" doc:"The name: ((NAME)) in the manifest template stands for the secret."`
	Length int            `key:"length,alternative" doc:"The number of characters of a generated password."`
	Value  *expr.Template `key:"value,alternative" doc:"A supplied value."`
	// Keepers are expressions: a generated secret gets a new value when what one of them gives changes.
	Keepers map[string]*expr.Template `key:"keepers"`
	// Input is the name of the input that Value refers to as a whole, as in ${license_key}; "" when Value is another
	// expression.
	Input string
	Pos   diag.Pos
}

// Reference is a credential that CredHub has already: ((Name)) in a template becomes ((path)), if the operator allows that path.
type Reference struct {
	Name string         `key:"name,required" doc:"The name: ((NAME)) in the manifest template stands for the credential."`
	Path *expr.Template `key:"path,required" doc:"The absolute path in CredHub, which the operator must allow; empty for none."`
	// Input is the name of the input that Path refers to as a whole, as in ${path}; "" when Path is another expression.
	Input string
	Pos   diag.Pos
}

// Output is a value of provision.bosh.outputs. Literal is the value where it is not a string.
type Output struct {
	Expr    *expr.Template
	Literal any
	Pos     diag.Pos
}

// Requires are preconditions of a deployment that are checked before anything is rendered.
type Requires struct {
	Releases        []Constraint `key:"releases" doc:"Release to version constraint, such as \">= 4.1, < 6\"."`
	Jobs            []Constraint `key:"jobs" doc:"Job to version constraint on the release that provides it."`
	Stemcells       []Constraint `key:"stemcells" doc:"Operating system of a stemcell to version constraint."`
	NoDowngrade     []string     `key:"no_downgrade" doc:"Releases that must not become older than the deployed ones."`
	NoDowngradeJobs []string     `key:"no_downgrade_jobs" doc:"Jobs whose releases must not become older than the deployed ones."`
	NoScaleIn       []string     `key:"no_scale_in" doc:"Instance groups that must not get fewer instances."`
}

// Constraint is a version constraint such as ">= 4.1, < 6" on a release, the release of a job, or a stemcell.
type Constraint struct {
	Name       string
	Constraint string
	Pos        diag.Pos
}
