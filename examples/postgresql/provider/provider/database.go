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

// database returns the attributes of the model as a postgres.Database.
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
		Description: "A database that belongs to a group of roles. Other roles may not connect to it.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true, Validators: identifiers(), Description: "The name of the database.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"owner": schema.StringAttribute{
				Required: true, Validators: identifiers(),
				Description: "The name of a role without login that owns the database. It is created if it does not " +
					"exist, and dropped with the database.",
			},
			"connection_limit": schema.Int64Attribute{
				Optional: true, Computed: true, Default: int64default.StaticInt64(-1),
				Validators:  []validator.Int64{between(-1, math.MaxInt32)},
				Description: "The maximum number of concurrent sessions; -1, the default, means any number.",
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

// Read updates the state. If the database does not exist, Read removes it from the state.
func (d *database) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m databaseModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	existing, err := d.server.ReadDatabase(ctx, m.Name.ValueString())
	if err != nil {
		resp.Diagnostics.AddError(err.Error(), "")
		return
	}
	if existing == nil {
		resp.State.RemoveResource(ctx)
		return
	}
	m.Owner, m.ConnectionLimit = types.StringValue(existing.Owner), types.Int64Value(int64(existing.ConnectionLimit))
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Update changes the owner and the connection limit. A change of the name replaces the database.
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

// Delete drops the database with its content.
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

// ImportState imports a database that was created without OpenTofu. The id of the request is the database's name.
func (d *database) ImportState(
	ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse,
) {
	resource.ImportStatePassthroughID(ctx, path.Root("name"), req, resp)
}
