package provider

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"service-adapter/terraform-provider-pgaccess/postgres"
)

// role is the resource pgaccess_role.
type role struct{ configured }

// roleModel is the configuration and state of a pgaccess_role.
type roleModel struct {
	Name            types.String `tfsdk:"name"`
	Group           types.String `tfsdk:"group"`
	Database        types.String `tfsdk:"database"`
	Marker          types.String `tfsdk:"marker"`
	Password        types.String `tfsdk:"password"`
	ConnectionLimit types.Int64  `tfsdk:"connection_limit"`
	ValidUntil      types.String `tfsdk:"valid_until"`
}

func (r *role) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "pgaccess_role"
}

// identifiers returns the validators of names of roles and databases.
func identifiers() []validator.String {
	return []validator.String{textRule{description: "a name for PostgreSQL", check: postgres.CheckIdentifier}}
}

func (r *role) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	name := func(description string) schema.StringAttribute {
		return schema.StringAttribute{
			Required: true, PlanModifiers: replace, Validators: identifiers(), Description: description,
		}
	}
	resp.Schema = schema.Schema{
		Description: "A login role that shares the objects that it creates in one database with the other roles of " +
			"its group.",
		Attributes: map[string]schema.Attribute{
			"name": name("The name of the role."),
			"group": name("The name of a role without login that owns the objects that its members create. " +
				"It is created if it does not exist, and is not dropped with this role."),
			"database": name("The name of the database that the role uses."),
			"marker": schema.StringAttribute{
				Required: true, PlanModifiers: replace,
				Description: "A text that identifies the configuration that manages the role. It is stored in the " +
					"role's comment. Only a role with the same marker is adopted or dropped.",
			},
			"password": schema.StringAttribute{
				Optional: true, Computed: true, Sensitive: true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Validators: []validator.String{
					textRule{description: "printable ASCII", check: postgres.CheckPassword},
				},
				Description: "The password. The default is a random password.",
			},
			"connection_limit": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(-1),
				Validators:  []validator.Int64{between(-1, math.MaxInt32)},
				Description: "The maximum number of concurrent sessions; -1, the default, means any number.",
			},
			"valid_until": schema.StringAttribute{
				Optional: true,
				Description: "The time at which the password expires, such as 2030-12-31T23:59:59Z. " +
					"By default, the password never expires.",
				Validators: []validator.String{textRule{description: "a time", check: func(text string) error {
					_, err := parseTime(text)
					return err
				}}},
			},
		},
	}
}

// role returns the attributes of the model as a postgres.Role.
func (m *roleModel) role() postgres.Role {
	until, _ := parseTime(m.ValidUntil.ValueString()) // the schema validates the text
	return postgres.Role{
		Name: m.Name.ValueString(), Group: m.Group.ValueString(), Database: m.Database.ValueString(),
		Marker: m.Marker.ValueString(), Password: m.Password.ValueString(),
		ConnectionLimit: m.ConnectionLimit.ValueInt64(), ValidUntil: until,
	}
}

// Create creates the role, or completes a role that remained after an interrupted run.
func (r *role) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m roleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if m.Password.ValueString() == "" {
		m.Password = types.StringValue(postgres.NewPassword())
	}
	err := r.server.CreateRole(ctx, m.role())
	if err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
	}
	if err == nil || errors.Is(err, postgres.ErrUncertain) {
		// After an uncertain error, the state contains the role so that OpenTofu can destroy it later.
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// Read updates the connection limit and the expiry in the state. If no role with the name and the marker exists, Read
// removes it from the state.
func (r *role) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m roleModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	current := m.role()
	exists, err := r.server.ReadRole(ctx, &current)
	if err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
		return
	}
	if !exists {
		resp.State.RemoveResource(ctx)
		return
	}
	m.ConnectionLimit = types.Int64Value(current.ConnectionLimit)
	switch {
	case current.ValidUntil.IsZero():
		m.ValidUntil = types.StringNull()
	case !current.ValidUntil.Equal(m.role().ValidUntil): // an equal time keeps the text of the configuration
		m.ValidUntil = types.StringValue(current.ValidUntil.UTC().Format(time.RFC3339))
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Update changes the password, the connection limit and the expiry. A change of another attribute replaces the role.
func (r *role) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m roleModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.server.UpdateRole(ctx, m.role()); err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Delete drops the role. Its objects remain and belong to its group.
func (r *role) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m roleModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := r.server.DropRole(ctx, m.role()); err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
	}
}
