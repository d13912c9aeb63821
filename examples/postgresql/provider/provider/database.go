package provider

import (
	"context"
	"math"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"service-adapter/terraform-provider-pgaccess/postgres"
)

// database is the resource pgaccess_database. Its import id is its name.
type database struct{ configured }

// databaseModel is the configuration and state of a pgaccess_database.
type databaseModel struct {
	Name            types.String `tfsdk:"name"`
	Owner           types.String `tfsdk:"owner"`
	ConnectionLimit types.Int64  `tfsdk:"connection_limit"`
}

// database is what the model describes.
func (m databaseModel) database() postgres.Database {
	return postgres.Database{
		Name: m.Name.ValueString(), Owner: m.Owner.ValueString(), ConnectionLimit: int(m.ConnectionLimit.ValueInt64()),
	}
}

func (d *database) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "pgaccess_database"
}

func (d *database) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "A database that belongs to a group of roles, and to which nobody else may connect.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: identifiers(), Description: "The database's name.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"owner": schema.StringAttribute{
				Required: true, Validators: identifiers(),
				Description: "The role, without login, that owns the database. It is made when there is none, " +
					"and dropped with the database.",
			},
			"connection_limit": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(-1),
				Validators:  []validator.Int64{between(-1, math.MaxInt32)},
				Description: "How many sessions there may be at a time; -1, the default, means any number.",
			},
		},
	}
}

func (d *database) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m databaseModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := d.server.CreateDatabase(ctx, m.database()); err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Read refreshes the state; a database that is gone leaves the state.
func (d *database) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m databaseModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	found, err := d.server.ReadDatabase(ctx, m.Name.ValueString())
	if err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
		return
	}
	if found == nil {
		resp.State.RemoveResource(ctx)
		return
	}
	m.Owner, m.ConnectionLimit = types.StringValue(found.Owner), types.Int64Value(int64(found.ConnectionLimit))
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Update changes all but the name.
func (d *database) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m databaseModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := d.server.ChangeDatabase(ctx, m.database()); err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Delete drops the database with all that it holds.
func (d *database) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m databaseModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := d.server.DropDatabase(ctx, m.Name.ValueString(), m.Owner.ValueString()); err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
	}
}

// ImportState takes over a database that was made by hand.
func (d *database) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	resource.ImportStatePassthroughID(ctx, path.Root("name"), req, resp)
}
