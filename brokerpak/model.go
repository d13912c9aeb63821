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
	PackVersion          int
	Name                 string
	Version              string
	Metadata             map[string]string
	Platforms            []Platform
	Binaries             []Binary // terraform_binaries
	Definitions          []Path   // service_definitions
	Parameters           []Parameter
	RequiredEnv          []string          // required_env_variables
	EnvConfigMapping     map[string]string // environment variable → configuration key
	UpgradePath          []string          // terraform_upgrade_path, versions ascending
	ProviderReplacements map[string]string // terraform_state_provider_replacements, old → new
}

// Path is a file of the pak, relative to its root, and where it was named.
type Path struct {
	Name string
	Pos  diag.Pos
}

// Platform is an operating system and architecture in Go's naming.
type Platform struct {
	OS   string
	Arch string
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
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Source      string   `json:"source"`
	ProviderFQN string   `json:"-"` // host/namespace/type, providers only
	URLTemplate string   `json:"-"`
	Default     bool     `json:"-"`
	Pos         diag.Pos `json:"-"`
}

// Parameter is an environment variable that operators may set for OpenTofu.
type Parameter struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Service is one service definition: a file under service_definitions.
type Service struct {
	File                string
	Name                string
	ID                  string
	Description         string
	DisplayName         string
	ProviderDisplayName string
	ImageURL            string
	DocumentationURL    string
	SupportURL          string
	Tags                []string
	PlanUpdateable      bool
	Plans               []Plan
	Provision           Action
	Bind                Action
	Examples            []Example
	Pos                 diag.Pos
}

// Plan is a plan of a service. A plan from the operator has no description of its own place.
type Plan struct {
	Name               string
	ID                 string
	Description        string
	DisplayName        string
	Bullets            []string
	Free               bool
	Properties         map[string]any
	ProvisionOverrides map[string]any
	BindOverrides      map[string]any
	Pos                diag.Pos
}

// Example documents a service and is played by tests.
type Example struct {
	Name            string
	Description     string
	PlanID          string
	ProvisionParams map[string]any
	BindParams      map[string]any
	BindCanFail     bool
	Pos             diag.Pos
}

// Action is the provision or the bind section of a service.
type Action struct {
	PlanInputs     []Variable
	UserInputs     []Variable
	ComputedInputs []Variable
	Outputs        []Variable
	// Templates are the OpenTofu files of the action, name ("main.tf") → text, whatever of template, template_ref,
	// templates and template_refs they came from. An inline `template` is the file "template.tf". TemplateSources tell where
	// each text stands.
	Templates       map[string]string
	TemplateSources map[string]Document

	ImportInputs             []Variable // parameters whose values identify existing resources
	ImportParameterMappings  []hclfile.Mapping
	ImportParametersToAdd    []hclfile.Mapping
	ImportParametersToDelete []string

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
	Name     string
	Type     string // JSON type; "" admits any
	Details  string
	Required bool
	Nullable bool
	// Default is the literal default; HasDefault is false when it is absent or null. DefaultExpr is set when the default
	// is a string: it is evaluated as an expression and cast to Type.
	Default         any
	HasDefault      bool
	DefaultExpr     *expr.Template
	Enum            []EnumValue
	Constraints     map[string]any
	TFAttribute     string
	TFAttributeSkip string
	ProhibitUpdate  bool
	// Types are several types of which the value has one; Type is empty then.
	Types []string
	// Sticky keeps the value of an instance when its plan or the default changes.
	Sticky bool
	// Additional makes a user input the map of all parameters that no input declares; no parameter has its name.
	Additional bool
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
	Match   string
	Exit    string
	Message string
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
	That     *expr.Template
	Message  *expr.Template
	Audience Audience
	Pos      diag.Pos
}

// Bosh is the section provision.bosh: how the service's BOSH manifest is made.
type Bosh struct {
	// Manifest is the text of the BOSH manifest template; ManifestFile and its first line locate it.
	Manifest               Document
	OptionalInstanceGroups []string
	Groups                 []GroupSize // instance groups that the definition sizes
	Ops                    []Conditional
	Secrets                []Secret
	References             []Reference
	PlanDefaults           []string               // user inputs for which a plan's property is only a default
	Configs                map[string]Conditional // "cloud", "cpi" or "runtime"
	Labels                 map[string]*expr.Template
	Update                 map[string]*expr.Template // update block for plans that have none; may use previous.exists
	Requires               Requires
	Checks                 []Check
	CarryOver              map[string][]string // what a foreign previous manifest keeps → go-patch paths, the first that exists counts
	Outputs                map[string]Output   // instance.details of the bind action
	DashboardURL           *expr.Template      // nil: no dashboard
	Pos                    diag.Pos

	carryOverAt map[string]diag.Pos // where the entries of CarryOver stand
}

// GroupSize is an instance group whose size the definition computes.
type GroupSize struct {
	Name string
	// Like is a group of the plan with which this one shares what nobody says of it; "" for none.
	Like string
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
	Name   string
	Length int
	Value  *expr.Template
	// Input is the name of the input that Value refers to as a whole, as in ${license_key}; "" when Value is another
	// expression.
	Input string
	Pos   diag.Pos
	// Keepers are expressions: a generated secret gets a new value when what one of them gives changes.
	Keepers map[string]*expr.Template
}

// Reference is a credential that CredHub has already: ((Name)) in a template becomes ((path)), if the operator allows that path.
type Reference struct {
	Name string
	// Path is the absolute path in CredHub; an empty result stands for no credential.
	Path *expr.Template
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
	Releases        []Constraint
	Jobs            []Constraint // of the release that provides the job
	Stemcells       []Constraint // by operating system
	NoDowngrade     []string     // releases, against the previous manifest
	NoDowngradeJobs []string     // jobs: the releases that provide them
	NoScaleIn       []string     // instance groups, against the previous plan
}

// Constraint is a version constraint such as ">= 4.1, < 6" on a release, the release of a job, or a stemcell.
type Constraint struct {
	Name       string
	Constraint string
	Pos        diag.Pos
}
