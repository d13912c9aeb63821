package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// entry is the resource directory_entry: the file <path>/<name>.
type entry struct{}

// entryModel contains the configuration and the state of a directory_entry.
type entryModel struct {
	Path    types.String `tfsdk:"path"`    // directory, must exist
	Name    types.String `tfsdk:"name"`    // name of the file
	Content types.String `tfsdk:"content"` // stored in the file
	Fail    types.String `tfsdk:"fail"`    // if not empty, create and update fail with this message
	Secret  types.String `tfsdk:"secret"`  // random, generated once, stored in the file

	// Password is write-only: OpenTofu sends it and stores it nowhere. The file contains its SHA-256 hash. Creations
	// use it, and updates that change its version.
	Password        types.String `tfsdk:"password_wo"`
	PasswordVersion types.String `tfsdk:"password_wo_version"`
}

// file is the content of an entry's file, as JSON.
type file struct {
	Content string `json:"content"`
	Secret  string `json:"secret"`
	// Digest is the SHA-256 hash of the password, in hexadecimal. It is "" without one.
	Digest string `json:"digest,omitempty"`
}

// Metadata sets the name of the resource.
func (e *entry) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "directory_entry"
}

// Schema declares the attributes of the resource.
func (e *entry) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"path":    schema.StringAttribute{Required: true, PlanModifiers: replace},
		"name":    schema.StringAttribute{Required: true, PlanModifiers: replace},
		"content": schema.StringAttribute{Optional: true},
		"fail":    schema.StringAttribute{Optional: true},
		"secret":  schema.StringAttribute{Computed: true, Sensitive: true, PlanModifiers: keep},

		"password_wo":         schema.StringAttribute{Optional: true, Sensitive: true, WriteOnly: true},
		"password_wo_version": schema.StringAttribute{Optional: true},
	}}
}

// Create writes the file. If the file already exists, it is adopted with its secret.
func (e *entry) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m entryModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := hold(m.Path.ValueString(), "before-create"); err != nil {
		resp.Diagnostics.AddError("Waiting before create", err.Error())
		return
	}
	resp.Diagnostics.Append(m.put(ctx, req.Config, types.StringNull())...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := hold(m.Path.ValueString(), "after-create"); err != nil {
		resp.Diagnostics.AddError("Waiting after create", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Read refreshes content and secret. An entry without a file is removed from the state.
func (e *entry) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m entryModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	f, err := m.get()
	if errors.Is(err, fs.ErrNotExist) {
		resp.State.RemoveResource(ctx)
		return
	}
	if err != nil {
		resp.Diagnostics.AddError("Reading entry", err.Error())
		return
	}
	if !m.Content.IsNull() || f.Content != "" {
		m.Content = types.StringValue(f.Content)
	}
	m.Secret = types.StringValue(f.Secret)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Update writes the new content.
func (e *entry) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m entryModel
	var before types.String
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("password_wo_version"), &before)...)
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(m.put(ctx, req.Config, before)...)
	if !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// Delete removes the file. A missing file is not an error.
func (e *entry) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m entryModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if err := hold(m.Path.ValueString(), "before-destroy"); err != nil {
		resp.Diagnostics.AddError("Waiting before destroy", err.Error())
		return
	}
	if err := os.Remove(m.filename()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		resp.Diagnostics.AddError("Removing entry", err.Error())
		return
	}
	if err := hold(m.Path.ValueString(), "after-destroy"); err != nil {
		resp.Diagnostics.AddError("Waiting after destroy", err.Error())
	}
}

// ImportState takes the path of an entry's file as its id.
func (e *entry) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	dir, name := filepath.Split(req.ID)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("path"), filepath.Clean(dir))...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), name)...)
}

// filename returns the path of the entry's file.
func (m *entryModel) filename() string {
	return filepath.Join(m.Path.ValueString(), m.Name.ValueString())
}

// get reads the entry's file. The error wraps fs.ErrNotExist if there is none.
func (m *entryModel) get() (file, error) {
	var f file
	text, err := os.ReadFile(m.filename())
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("decoding %s: %w", m.filename(), err)
	}
	return f, nil
}

// write writes the entry's file atomically. As with a real service, a kill leaves the old file or the new one.
func (m *entryModel) write(f file) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	temp := filepath.Join(m.Path.ValueString(), "."+m.Name.ValueString()+".tmp")
	if err := os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, m.filename())
}

// put writes the entry's file, keeping the secret of an existing file, and sets the secret of the model. The password
// is read from the configuration if the file is new or the version of the password differs from before.
func (m *entryModel) put(ctx context.Context, config tfsdk.Config, before types.String) diag.Diagnostics {
	var password types.String
	diags := config.GetAttribute(ctx, path.Root("password_wo"), &password)
	if diags.HasError() {
		return diags
	}
	if text := m.Fail.ValueString(); text != "" {
		diags.AddError("Entry refused", text)
		return diags
	}
	f, err := m.get()
	if errors.Is(err, fs.ErrNotExist) {
		f.Secret, err = rand.Text(), nil
	}
	if err != nil {
		diags.AddError("Reading entry", err.Error())
		return diags
	}
	f.Content = m.Content.ValueString()
	if f.Digest == "" || !m.PasswordVersion.Equal(before) {
		f.Digest = ""
		if !password.IsNull() {
			f.Digest = fmt.Sprintf("%x", sha256.Sum256([]byte(password.ValueString())))
		}
	}
	if err := m.write(f); err != nil {
		diags.AddError("Writing entry", err.Error())
		return diags
	}
	m.Secret = types.StringValue(f.Secret)
	return diags
}
