package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// claim is the resource directory_claim: values of a finite pool that belong exclusively to one owner. The pool is a
// directory with a file for each value that is taken; the file contains the owner. Every resource of this kind,
// wherever its pool is stored, must have these properties:
//
//   - Reading the pool and taking values is one step for all processes, here under a lock of the directory.
//   - The next creation adopts values that its owner already has, for instance after a kill before the state was
//     stored.
//   - A creation that does not get all of its values returns those that it took.
//   - An update keeps values, even if the pool no longer offers them.
type claim struct{}

// claimModel contains the configuration and the state of a directory_claim.
type claimModel struct {
	Path       types.String `tfsdk:"path"`       // directory of the pool, created if it does not exist
	Owner      types.String `tfsdk:"owner"`      // owner of the values
	Candidates types.List   `tfsdk:"candidates"` // all values of the pool; the first free values are taken
	Amount     types.Int64  `tfsdk:"amount"`     // number of values
	Values     types.List   `tfsdk:"values"`     // the values taken, in the order of the candidates
}

// Metadata sets the name of the resource.
func (c *claim) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "directory_claim"
}

// Schema declares the attributes of the resource.
func (c *claim) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	resp.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"path":       schema.StringAttribute{Required: true, PlanModifiers: replace},
		"owner":      schema.StringAttribute{Required: true, PlanModifiers: replace},
		"candidates": schema.ListAttribute{Required: true, ElementType: types.StringType},
		"amount":     schema.Int64Attribute{Required: true},
		"values":     schema.ListAttribute{Computed: true, ElementType: types.StringType},
	}}
}

// Create takes the values. It keeps values that the owner already has.
func (c *claim) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var m claimModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if resp.Diagnostics.Append(m.take(ctx)...); resp.Diagnostics.HasError() {
		return
	}
	if err := hold(m.Path.ValueString(), "after-create"); err != nil {
		resp.Diagnostics.AddError("Waiting after create", err.Error())
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Read reads the values of the owner. A claim without values is removed from the state.
func (c *claim) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var m claimModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	taken, err := m.taken()
	if err != nil {
		resp.Diagnostics.AddError("Reading the pool", err.Error())
		return
	}
	var before, kept []string
	resp.Diagnostics.Append(m.Values.ElementsAs(ctx, &before, false)...)
	for _, value := range before {
		if taken[value] == m.Owner.ValueString() {
			kept = append(kept, value)
		}
	}
	if len(kept) == 0 && len(before) > 0 {
		resp.State.RemoveResource(ctx)
		return
	}
	resp.Diagnostics.Append(m.set(ctx, kept)...)
	resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
}

// Update takes more values or returns some.
func (c *claim) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var m claimModel
	resp.Diagnostics.Append(req.Plan.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if resp.Diagnostics.Append(m.take(ctx)...); !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(resp.State.Set(ctx, m)...)
	}
}

// Delete returns all values of the owner.
func (c *claim) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var m claimModel
	resp.Diagnostics.Append(req.State.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	err := m.locked(func() error {
		taken, err := m.taken()
		if err != nil {
			return err
		}
		return m.giveBack(m.own(taken, nil))
	})
	if err != nil {
		resp.Diagnostics.AddError("Giving values back", err.Error())
	}
}

// take gives the owner the configured number of values, and sets the attribute values.
func (m *claimModel) take(ctx context.Context) diag.Diagnostics {
	var candidates []string
	diags := m.Candidates.ElementsAs(ctx, &candidates, false)
	if diags.HasError() {
		return diags
	}
	var values []string
	err := m.locked(func() (err error) {
		values, err = m.choose(candidates, int(m.Amount.ValueInt64()))
		return err
	})
	if err != nil {
		diags.AddError("Taking values of a pool", err.Error())
		return diags
	}
	diags.Append(m.set(ctx, values)...)
	return diags
}

// choose returns the values of the owner after taking the first free values that it lacks, or after returning surplus
// values. It returns an error and takes nothing if too few values are free.
func (m *claimModel) choose(candidates []string, amount int) ([]string, error) {
	taken, err := m.taken()
	if err != nil {
		return nil, err
	}
	values := m.own(taken, candidates)
	if len(values) > amount {
		return values[:amount], m.giveBack(values[amount:])
	}
	free := slices.DeleteFunc(slices.Clone(candidates), func(value string) bool { return taken[value] != "" })
	missing := amount - len(values)
	if len(free) < missing {
		return nil, fmt.Errorf("no free value: %d are wanted, %d of %d are free", amount, len(free), len(candidates))
	}
	if err := hold(m.Path.ValueString(), "taking"); err != nil {
		return nil, err
	}
	for _, value := range free[:missing] {
		if err := m.write(value); err != nil {
			return nil, err
		}
	}
	return append(values, free[:missing]...), nil
}

// own returns the values of the owner in the order of the candidates. Values that are no longer candidates come first.
func (m *claimModel) own(taken map[string]string, candidates []string) []string {
	var values []string
	for value, owner := range taken {
		if owner == m.Owner.ValueString() {
			values = append(values, value)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return slices.Index(candidates, a) - slices.Index(candidates, b) })
	return values
}

// taken returns the owners of all values that are taken, by value.
func (m *claimModel) taken() (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(m.Path.ValueString(), "value-*"))
	if err != nil {
		return nil, err
	}
	taken := map[string]string{}
	for _, file := range files {
		owner, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // the value was returned in the meantime
			continue
		}
		if err != nil {
			return nil, err
		}
		value, err := url.PathUnescape(filepath.Base(file)[len("value-"):])
		if err != nil {
			return nil, err
		}
		taken[value] = string(owner)
	}
	return taken, nil
}

// filename returns the path of the file of a value.
func (m *claimModel) filename(value string) string {
	return filepath.Join(m.Path.ValueString(), "value-"+url.PathEscape(value))
}

// write writes the file of a value atomically, so that a value has an owner or is free even after a kill.
func (m *claimModel) write(value string) error {
	temp := filepath.Join(m.Path.ValueString(), ".claim.tmp") // the lock allows only one writer
	if err := os.WriteFile(temp, []byte(m.Owner.ValueString()), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, m.filename(value))
}

// giveBack removes the files of values.
func (m *claimModel) giveBack(values []string) error {
	for _, value := range values {
		if err := os.Remove(m.filename(value)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// locked calls f under the lock of the pool and returns its error. The lock is released at the end, also by a kill.
func (m *claimModel) locked(f func() error) error {
	if err := os.MkdirAll(m.Path.ValueString(), 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(m.Path.ValueString(), ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return f()
}

// set sets the attribute values.
func (m *claimModel) set(ctx context.Context, values []string) diag.Diagnostics {
	list, diags := types.ListValueFrom(ctx, types.StringType, values)
	m.Values = list
	return diags
}
