package main

import (
	"context"
	"crypto/rand"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// defaultSpecial contains the default special characters of hashicorp/random.
const defaultSpecial = "!@#$%&*()-_=+[]{}<>:?"

// randomString is the resource random_string, or random_password if its result is sensitive.
type randomString struct {
	name      string
	sensitive bool
}

// stringModel contains the configuration and the state of both resources.
type stringModel struct {
	ID              types.String `tfsdk:"id"`
	Length          types.Int64  `tfsdk:"length"`
	Special         types.Bool   `tfsdk:"special"`
	OverrideSpecial types.String `tfsdk:"override_special"`
	Upper           types.Bool   `tfsdk:"upper"`
	Lower           types.Bool   `tfsdk:"lower"`
	Numeric         types.Bool   `tfsdk:"numeric"`
	Result          types.String `tfsdk:"result"`
}

// Metadata sets the name of the resource.
func (r *randomString) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = r.name
}

// Schema declares the attributes of the resource.
func (r *randomString) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	class := schema.BoolAttribute{
		Optional: true, Computed: true, Default: booldefault.StaticBool(true),
		PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
	}
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"id": schema.StringAttribute{Computed: true, PlanModifiers: keep},
		"length": schema.Int64Attribute{
			Required: true, PlanModifiers: []planmodifier.Int64{int64planmodifier.RequiresReplace()},
		},
		"special": class, "upper": class, "lower": class, "numeric": class,
		"override_special": schema.StringAttribute{
			Optional: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"result": schema.StringAttribute{Computed: true, Sensitive: r.sensitive, PlanModifiers: keep},
	}}
}

// Create generates the string.
func (r *randomString) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m stringModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	text, err := draw(m.alphabet(), int(m.Length.ValueInt64()))
	if err != nil {
		resp.Diagnostics.AddError("Drawing a random string", err.Error())
		return
	}
	m.Result, m.ID = types.StringValue(text), types.StringValue(text)
	if r.sensitive {
		m.ID = types.StringValue("none")
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Read keeps the state, because no object exists outside of it.
func (r *randomString) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update is never called, because a change of any argument replaces the resource.
func (r *randomString) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete does nothing; OpenTofu removes the string from the state.
func (r *randomString) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

// alphabet returns the characters that the arguments allow.
func (m *stringModel) alphabet() string {
	special := defaultSpecial
	if !m.OverrideSpecial.IsNull() {
		special = m.OverrideSpecial.ValueString()
	}
	var all string
	for _, class := range []struct {
		on    types.Bool
		chars string
	}{
		{m.Upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
		{m.Lower, "abcdefghijklmnopqrstuvwxyz"},
		{m.Numeric, "0123456789"},
		{m.Special, special},
	} {
		if class.on.ValueBool() {
			all += class.chars
		}
	}
	return all
}

// draw returns n random characters of the alphabet. It returns "" for an empty alphabet.
func draw(alphabet string, n int) (string, error) {
	if alphabet == "" {
		return "", nil
	}
	text := make([]byte, n)
	for i := range text {
		at, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return "", err
		}
		text[i] = alphabet[at.Int64()]
	}
	return string(text), nil
}
