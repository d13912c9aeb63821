package brokerpak

import (
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
)

// A Manifest is the content of a pak's manifest.yml, as defined by the format Brokerpak V1: the name, version and
// platforms of the pak, its binaries and service definitions, and settings for OpenTofu. Keys that the file does not
// have leave their fields zero. The zero Manifest is the result of a file that could not be parsed.
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

// A Path is the slash-separated path of a file relative to the pak's root, with the position at which the manifest
// refers to it. While a manifest is parsed, a step of its upgrade path is also a Path, with a version of OpenTofu as
// its Name. An empty Name means that the manifest has an entry without a value, which is reported as an error.
type Path struct {
	Name string
	Pos  diag.Pos
}

// A Platform is an operating system and an architecture, in Go's naming, such as linux and amd64. Both are "" in the
// zero Platform, which is not a valid platform.
type Platform struct {
	OS   string `key:"os,required" doc:"The operating system, in Go's naming."`
	Arch string `key:"arch,required" doc:"The architecture, in Go's naming."`
}

// String returns the platform as "OS/ARCH", such as "linux/amd64". A missing part is empty, so the zero Platform is
// "/".
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// A BinaryKind distinguishes the entries of terraform_binaries: Tofu for OpenTofu itself, Provider for a provider, and
// OtherBinary for any other program, which is put on the PATH of OpenTofu. The zero value is Tofu. Binary.Kind derives
// the kind from the name of the entry.
type BinaryKind int

// The kinds of binaries, told apart by their name.
const (
	Tofu        BinaryKind = iota // named "tofu"
	Provider                      // named "terraform-provider-…"
	OtherBinary                   // anything else; put on the PATH of OpenTofu
)

// A Binary is an entry of terraform_binaries in the manifest: OpenTofu, a provider or another program that the pak
// contains, with its name and version. The zero Binary has no name and is not a valid entry.
//
// Default marks the OpenTofu that runs the templates if the pak has several. Provider is the value of the key
// provider, or "". ProviderFQN is the full name HOST/NAMESPACE/TYPE of a provider, which decoding derives from
// Provider or, if that is "", from Name. It is "" for OpenTofu and other programs, and for a provider whose Provider
// is invalid.
//
// Source is the URL of a zip of the source code, or "". URLTemplate is the URL or local path from which the binary is
// fetched when the pak is built, with ${name}, ${version}, ${os} and ${arch}; "" means the default location of
// OpenTofu or of providers.
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

// A Parameter is an entry of the manifest's key parameters: the name of an environment variable that operators may set
// for OpenTofu, such as TF_VAR_redis_version, with a description for them. The variable does not have to be set. Both
// fields are required in the manifest.
type Parameter struct {
	Name        string `json:"name" key:"name,required" doc:"The environment variable, such as TF_VAR_redis_version."`
	Description string `json:"description" key:"description,required" doc:"What the variable means."`
}

// A Service is a service definition: the decoded content of one of the files that the manifest lists under
// service_definitions, with the offering, its plans and examples, the sections provision and bind, and the programs
// that its templates run (RequiredCommands). Provision and Bind are zero if the definition does not have the section.
// File is the path of the file in the pak. Pos is the position of the service's name, or of the start of the definition
// if it has none.
type Service struct {
	// File is the path of the definition in the pak.
	File    string
	Version int `key:"version,required" doc:"The version of the format: 1."`
	Offering
	Plans     []Plan    `key:"plans" doc:"The plans of the service."`
	Examples  []Example `key:"examples" doc:"Examples, which document the service and are executed by tests."`
	Provision Action    `key:"provision" doc:"How an instance is created."`
	Bind      Action    `key:"bind" doc:"How a binding is created."`
	// RequiredCommands are the programs that the commands of the templates run. They do not have to be in the pak.
	RequiredCommands []Command `key:"requires_commands"`
	Pos              diag.Pos
}

// A Command is an entry of a service definition's key requires_commands: the name, such as "curl", of a program that
// the OpenTofu templates of the service run, with the position of the entry. The program must be on the PATH of the
// processes of OpenTofu, which also find the binaries of the pak there; it does not have to be in the pak. The name
// never contains a directory.
type Command struct {
	Name string
	Pos  diag.Pos
}

// An Offering is the part of a service definition that the marketplace shows of the service, apart from its plans: its
// name, id, description, tags and links. A field is zero if the definition does not have its key, which is an error for
// most of them.
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

// A Plan is a plan of a service, from the service definition or from the operator's configuration. Properties
// contains values of inputs. Users of the plan cannot set these inputs when they create or update an instance, unless
// provision.bosh.plan_defaults lists the input. The values in ProvisionOverrides replace the parameters of users
// whenever an instance is created, updated or upgraded, and those in BindOverrides when a binding is created. A
// property in turn replaces the value that ProvisionOverrides has for its input, unless plan_defaults lists the input
// and the user sets it. For a binding, a property replaces other values only if the bind section declares it as a
// plan input. The maps are keyed by input and may be nil. Pos is zero for a plan from the operator's configuration.
type Plan struct {
	Name               string         `key:"name,required"`
	ID                 string         `key:"id,required" doc:"A UUID that identifies the plan. It must never change."`
	Description        string         `key:"description,required" doc:"A short description of the plan."`
	DisplayName        string         `key:"display_name,required" doc:"The name of the plan in graphical clients."`
	Bullets            []string       `key:"bullets" doc:"Features of the plan, shown as a list."`
	Free               bool           `key:"free" doc:"Whether instances cost nothing; default false."`
	Properties         map[string]any `key:"properties" doc:"Values of inputs. Users of the plan cannot change them, unless plan_defaults lists the input."`
	ProvisionOverrides map[string]any `key:"provision_overrides"`
	BindOverrides      map[string]any `key:"bind_overrides"`
	Pos                diag.Pos
}

// An Example is an entry of a service definition's key examples, which documents how to use the service: the id of a
// plan, and the parameters of an instance and of a binding of that plan. Tests of the pak execute it; with BindCanFail,
// it passes even if its binding fails. Nil parameters mean that none are passed.
type Example struct {
	Name            string         `key:"name,required" doc:"The name of the example."`
	Description     string         `key:"description,required" doc:"What the example shows."`
	PlanID          string         `key:"plan_id,required" doc:"The id of the plan that the example uses."`
	ProvisionParams map[string]any `key:"provision_params" doc:"Parameters of cf create-service."`
	BindParams      map[string]any `key:"bind_params" doc:"Parameters of cf bind-service."`
	BindCanFail     bool           `key:"bind_can_fail" doc:"Whether the example passes even if the binding fails."`
	Pos             diag.Pos
}

// An Action is the section provision or bind of a service definition: its inputs, its outputs, the texts of its
// OpenTofu files by file name, and the keys that this adapter adds. Bosh is nil for a bind section, and for a provision
// section without the key bosh. The zero Action means that the service definition does not have the section. After
// decoding a section, Pos is not zero.
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

// An Import is the part of a provision section that describes how existing resources are imported into the OpenTofu
// state of an instance, and how the OpenTofu code for them is changed: its import inputs, which are the parameters that
// name the resources, and the attributes that are replaced, added and deleted. Its lists are empty if the action
// imports nothing. A bind section may have these keys, but a binding imports nothing.
type Import struct {
	ImportInputs             []Variable        `key:"import_inputs"`
	ImportParameterMappings  []hclfile.Mapping `key:"import_parameter_mappings"`
	ImportParametersToAdd    []hclfile.Mapping `key:"import_parameters_to_add"`
	ImportParametersToDelete []string          `key:"import_parameters_to_delete"`
}

// BindRules are the keys that this adapter adds to a bind section, except for the key errors, which is in
// Action.Errors. RequiresAppGUID rejects bindings without an app, and Requires are the checks that a bind request
// must pass. Adopt is a condition for unbind requests: if it is true for a binding without a recorded state, the
// binding is first created, so that its provider takes over the existing resources, and then deleted. A nil Adopt
// means never. A binding is not created in this way either if the stored state of its instance shows that the
// deletion of the instance was begun.
//
// Command is the name of the executable of the pak that creates and deletes bindings instead of the resources of an
// OpenTofu template, or "". The zero BindRules restrict nothing and have no executable. They are always zero for a
// provision section.
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

// An ErrorRule is an entry of the key errors of an action. It translates a failure of the action's OpenTofu template
// into an error of the service adapter protocol. It applies if the regular expression Match (RE2) matches a part of
// OpenTofu's error text and no earlier rule applies.
//
// Exit is "41" (no such binding) or "49" (the binding exists), for bindings only, or "user", which shows Message to the
// user or, if Message is "", OpenTofu's own error text. Message must be "" for the other two.
type ErrorRule struct {
	Match   string `key:"match,required" doc:"A regular expression (RE2) on the text of the error."`
	Exit    string `key:"exit,required"`
	Message string `key:"message"`
	Pos     diag.Pos
}

// An Audience is the reader of the message with which a check rejects a request: Operator ("operator") or User
// ("user"). A check in a definition that names no audience is decoded with Operator, and the zero value "" counts as
// Operator as well.
type Audience string

// The audiences of a check. Operator is the default.
const (
	Operator Audience = "operator"
	User     Audience = "user"
)

// A Check is a rule of a service, which requests must satisfy, in the list checks of provision.bosh or the list
// requires of a bind section. Its field That is an expression that must be true. A request is rejected if That is
// false: with the text of the expression Message, whose reader is the Audience, or with another error if Message cannot
// be evaluated. It is also rejected if That cannot be evaluated, or if the value of That counts neither as true nor as
// false (see expr.Truthy). A check of provision.bosh that is also false for the deployed instance only causes a
// warning, unless That reads the previous deployment or plan (see Previous). That and Message are never nil after
// decoding.
type Check struct {
	That     *expr.Template `key:"that,required"`
	Message  *expr.Template `key:"message,required" doc:"Why the request is rejected."`
	Audience Audience       `key:"audience" doc:"Who reads the message; default operator."`
	Pos      diag.Pos
}
