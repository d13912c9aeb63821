package brokerpak

import (
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
)

// A Manifest is the content of a pak's manifest.yml, as defined by Brokerpak V1. Keys that the file does not have leave
// their fields zero.
type Manifest struct {
	PackVersion int               `key:"packversion,required" doc:"The version of the format: 1."`
	Name        string            `key:"name,required"`
	Version     string            `key:"version,required"`
	Metadata    map[string]string `key:"metadata"`
	Platforms   []Platform        `key:"platforms,required" doc:"The platforms on which the brokerpak runs."`
	Binaries    []Binary          `key:"terraform_binaries,required"`
	Definitions []Path            `key:"service_definitions,required"`

	Parameters  []Parameter `key:"parameters"`
	RequiredEnv []string    `key:"required_env_variables"`
	// EnvConfigMapping maps environment variables to keys of the function config.
	EnvConfigMapping map[string]string `key:"env_config_mapping"`

	// UpgradePath contains versions of OpenTofu, in ascending order.
	UpgradePath []string `key:"terraform_upgrade_path"`
	// ProviderReplacements maps old names of providers in the state to new ones.
	ProviderReplacements map[string]string `key:"terraform_state_provider_replacements"`
}

// A Path is the path of a file relative to the pak's root, with the position at which the manifest refers to it. While
// a manifest is parsed, a version in its upgrade path is also a Path, with the version as its Name.
type Path struct {
	Name string
	Pos  diag.Pos
}

// A Platform is an operating system and an architecture, in Go's naming, such as linux and amd64.
type Platform struct {
	OS   string `key:"os,required" doc:"The operating system, in Go's naming."`
	Arch string `key:"arch,required" doc:"The architecture, in Go's naming."`
}

// String returns "OS/ARCH".
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// A BinaryKind distinguishes the entries of terraform_binaries: OpenTofu, providers and other binaries. See
// Binary.Kind.
type BinaryKind int

// The kinds of binaries, told apart by their name.
const (
	Tofu        BinaryKind = iota // named "tofu"
	Provider                      // named "terraform-provider-…"
	OtherBinary                   // anything else; put on the PATH of OpenTofu
)

// A Binary is an entry of terraform_binaries. Default marks the OpenTofu that runs the templates if there are several.
// URLTemplate is the URL or path from which the binary is fetched when the pak is built; "" means the default location
// of OpenTofu or of providers.
type Binary struct {
	Name    string `json:"name" key:"name,required" doc:"tofu, terraform-provider-TYPE, or any other program."`
	Version string `json:"version" key:"version,required" doc:"The version, such as 1.12.6."`
	Source  string `json:"source" key:"source" doc:"The URL of a zip of the source code."`
	// Provider is the provider as the manifest names it: [[HOSTNAME/]NAMESPACE/]TYPE, or "".
	Provider string `json:"-" key:"provider"`
	// ProviderFQN is HOST/NAMESPACE/TYPE of a provider; "" for other binaries.
	ProviderFQN string   `json:"-"`
	URLTemplate string   `json:"-" key:"url_template"`
	Default     bool     `json:"-" key:"default"`
	Pos         diag.Pos `json:"-"`
}

// A Parameter is an environment variable that operators may set for OpenTofu, with a description for them. It does not
// have to be set.
type Parameter struct {
	Name        string `json:"name" key:"name,required" doc:"The environment variable, such as TF_VAR_redis_version."`
	Description string `json:"description" key:"description,required" doc:"What the variable means."`
}

// A Service is a service definition: one of the files that the manifest lists under service_definitions. Provision and
// Bind are zero if the definition does not have the section. Pos is the position of the name, or of the definition if
// it has none.
type Service struct {
	// File is the path of the definition in the pak.
	File    string
	Version int `key:"version,required" doc:"The version of the format: 1."`
	Offering
	Plans     []Plan    `key:"plans" doc:"The plans of the service."`
	Examples  []Example `key:"examples" doc:"Examples, which document the service and are executed by tests."`
	Provision Action    `key:"provision" doc:"How an instance is created."`
	Bind      Action    `key:"bind" doc:"How a binding is created."`
	// RequiredCommands are the programs that the commands of the templates run and that the pak does not contain.
	RequiredCommands []Command `key:"requires_commands"`
	Pos              diag.Pos
}

// A Command is the name of a program that is found on the PATH of the processes of OpenTofu.
type Command struct {
	Name string
	Pos  diag.Pos
}

// An Offering is what the marketplace shows of a service, apart from its plans.
type Offering struct {
	Name                string   `key:"name,required"`
	ID                  string   `key:"id,required" doc:"A UUID that identifies the service. It must never change."`
	Description         string   `key:"description,required" doc:"A short description of the service."`
	DisplayName         string   `key:"display_name,required" doc:"The name of the service in graphical clients."`
	ProviderDisplayName string   `key:"provider_display_name" doc:"The name of the provider in graphical clients."`
	ImageURL            string   `key:"image_url,required"`
	DocumentationURL    string   `key:"documentation_url,required" doc:"The URL of the service's documentation."`
	SupportURL          string   `key:"support_url,required" doc:"The URL of the service's support page."`
	Tags                []string `key:"tags" doc:"Classifications of the service, such as redis or key-value."`
	PlanUpdateable      bool     `key:"plan_updateable" doc:"Whether cf update-service may change the plan."`
}

// A Plan is a plan of a service. The values in ProvisionOverrides replace those of users whenever an instance is
// created, updated or upgraded, and those in BindOverrides when a binding is created. Pos is zero for a plan that the
// operator defines in the configuration.
type Plan struct {
	Name               string         `key:"name,required"`
	ID                 string         `key:"id,required" doc:"A UUID that identifies the plan. It must never change."`
	Description        string         `key:"description,required" doc:"A short description of the plan."`
	DisplayName        string         `key:"display_name,required" doc:"The name of the plan in graphical clients."`
	Bullets            []string       `key:"bullets" doc:"Features of the plan, shown as a list."`
	Free               bool           `key:"free" doc:"Whether instances cost nothing; default false."`
	Properties         map[string]any `key:"properties" doc:"Values of inputs that users of this plan cannot change."`
	ProvisionOverrides map[string]any `key:"provision_overrides"`
	BindOverrides      map[string]any `key:"bind_overrides"`
	Pos                diag.Pos
}

// An Example documents how to use a service: the parameters of an instance and of a binding of one plan. Tests execute
// it.
type Example struct {
	Name            string         `key:"name,required" doc:"The name of the example."`
	Description     string         `key:"description,required" doc:"What the example shows."`
	PlanID          string         `key:"plan_id,required" doc:"The id of the plan that the example uses."`
	ProvisionParams map[string]any `key:"provision_params" doc:"Parameters of cf create-service."`
	BindParams      map[string]any `key:"bind_params" doc:"Parameters of cf bind-service."`
	BindCanFail     bool           `key:"bind_can_fail" doc:"Whether the example passes even if the binding fails."`
	Pos             diag.Pos
}

// An Action is the provision section or the bind section of a service: its inputs, outputs and OpenTofu files, and the
// keys that this adapter adds. The zero Action means that the service definition does not have the section.
type Action struct {
	PlanInputs     []Variable `key:"plan_inputs" doc:"Variables that plans set in their properties."`
	UserInputs     []Variable `key:"user_inputs" doc:"Parameters of users."`
	ComputedInputs []Variable `key:"computed_inputs" doc:"Variables that expressions compute."`
	Outputs        []Variable `key:"outputs"`
	// Templates maps the names of the action's OpenTofu files, such as "main.tf", to their texts. They are read from
	// the keys template, template_ref, templates and template_refs. The text of `template` is the file "template.tf".
	Templates map[string]string
	// TemplateSources maps the same names to the texts with their positions in the pak.
	TemplateSources map[string]Document

	Import

	// Bosh is the section provision.bosh. It is nil if the service has none, and always nil for bind.
	Bosh *Bosh
	// Errors are the rules that translate failures of the template. The first one that matches applies.
	Errors []ErrorRule
	BindRules

	Pos diag.Pos
}

// An Import describes how existing resources are imported into the state of an instance, and how the template is
// changed accordingly. It is empty if the action imports nothing. Bind actions ignore it.
type Import struct {
	ImportInputs             []Variable        `key:"import_inputs"`
	ImportParameterMappings  []hclfile.Mapping `key:"import_parameter_mappings"`
	ImportParametersToAdd    []hclfile.Mapping `key:"import_parameters_to_add"`
	ImportParametersToDelete []string          `key:"import_parameters_to_delete"`
}

// BindRules decide which bind and unbind requests are accepted. They are empty for a provision section.
type BindRules struct {
	// RequiresAppGUID rejects bindings without an app.
	RequiresAppGUID bool
	// Adopt is a condition for deleting a binding that has no recorded state. If it is true, the binding is created
	// first, so that its provider takes over the existing resources, and is deleted then. Nil means never.
	Adopt *expr.Template
	// Requires are the checks that a bind request must pass.
	Requires []Check
	// Command is the executable of the pak that creates and deletes bindings, or "". With a command, Templates also has
	// the generated file hclfile.CommandFile, and ComputedInputs an input for the value of each output.
	Command string
}

// An ErrorRule translates a failure of a template into an error of the service adapter protocol. It applies if the
// text of the error matches the regular expression Match (RE2).
//
// Exit is "41" (no such binding) or "49" (the binding exists), for bindings only, or "user", which shows Message to
// the user. An empty Message means the text of the error.
type ErrorRule struct {
	Match   string `key:"match,required" doc:"A regular expression (RE2) on the text of the error."`
	Exit    string `key:"exit,required"`
	Message string `key:"message"`
	Pos     diag.Pos
}

// An Audience is the reader of a check's message: Operator or User.
type Audience string

// The audiences of a check. Operator is the default.
const (
	Operator Audience = "operator"
	User     Audience = "user"
)

// A Check is a rule of the service. A request is rejected with Message if That is false, empty or null, and with
// another error if That cannot be evaluated. A check of provision.bosh that is also false for the deployed instance
// only causes a warning, unless it reads the previous deployment.
type Check struct {
	That     *expr.Template `key:"that,required"`
	Message  *expr.Template `key:"message,required" doc:"Why the request is rejected."`
	Audience Audience       `key:"audience" doc:"Who reads the message; default operator."`
	Pos      diag.Pos
}
