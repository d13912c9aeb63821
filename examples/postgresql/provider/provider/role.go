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

// identifiers is the validator of names.
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
		Description: "A login role that shares what it makes in one database with the other roles of its group.",
		Attributes: map[string]schema.Attribute{
			"name": name("The role's name."),
			"group": name("The role, without login, that owns what its members make. " +
				"It is made when there is none, and stays."),
			"database": name("The database that the role is for."),
			"marker": schema.StringAttribute{
				Required: true, PlanModifiers: replace,
				Description: "Whose role it is, kept as its comment: " +
					"only a role of the same marker is adopted or dropped.",
			},
			"password": schema.StringAttribute{
				Optional: true, Computed: true, Sensitive: true,
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Validators: []validator.String{
					textRule{description: "printable ASCII", check: postgres.CheckPassword},
				},
				Description: "The password; a random one where none is given.",
			},
			"connection_limit": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(-1),
				Validators:  []validator.Int64{between(-1, math.MaxInt32)},
				Description: "How many sessions there may be at a time; -1, the default, means any number.",
			},
			"valid_until": schema.StringAttribute{
				Optional:    true,
				Description: "When the password expires, such as 2030-12-31T23:59:59Z; never by default.",
				Validators: []validator.String{textRule{description: "a time", check: func(text string) error {
					_, err := parseTime(text)
					return err
				}}},
			},
		},
	}
}

// role is what the model describes.
func (m *roleModel) role() postgres.Role {
	until, _ := parseTime(m.ValidUntil.ValueString()) // it was validated
	return postgres.Role{
		Name: m.Name.ValueString(), Group: m.Group.ValueString(), Database: m.Database.ValueString(),
		Marker: m.Marker.ValueString(), Password: m.Password.ValueString(),
		ConnectionLimit: m.ConnectionLimit.ValueInt64(), ValidUntil: until,
	}
}

// Create makes the role, or completes the one that an interrupted run left.
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
	if err == nil || errors.Is(err, postgres.ErrUncertain) { // in the state, it is destroyed later
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// Read refreshes what can be changed; a role that is gone leaves the state.
func (r *role) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m roleModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	known := m.role()
	exists, err := r.server.ReadRole(ctx, &known)
	if err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
		return
	}
	if !exists {
		resp.State.RemoveResource(ctx)
		return
	}
	m.ConnectionLimit = types.Int64Value(known.ConnectionLimit)
	switch {
	case known.ValidUntil.IsZero():
		m.ValidUntil = types.StringNull()
	case !known.ValidUntil.Equal(m.role().ValidUntil): // else the text stays as it was written
		m.ValidUntil = types.StringValue(known.ValidUntil.UTC().Format(time.RFC3339))
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Update changes password, connection limit and expiry.
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

// Delete drops the role; what it owned stays, with its group.
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
