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

// claim is the resource directory_claim: some values of a finite pool, which nobody else has meanwhile. The pool is a
// directory with a file for each value that is taken, in which its owner stands. What must hold of such a resource,
// whatever keeps the pool:
//
//   - to look and to take is one step for all processes, here under a lock of the directory;
//   - what an owner has already, as after a kill before the state was stored, is taken over by its next creation;
//   - a creation that does not get all it wants gives back what it took;
//   - an update keeps values, also those that the pool no longer offers.
type claim struct{}

// claimModel is the configuration and state of a directory_claim.
type claimModel struct {
	Path       types.String `tfsdk:"path"`       // directory of the pool, made where it is missing
	Owner      types.String `tfsdk:"owner"`      // who takes the values
	Candidates types.List   `tfsdk:"candidates"` // all values of the pool, the first free ones are taken
	Amount     types.Int64  `tfsdk:"amount"`     // how many
	Values     types.List   `tfsdk:"values"`     // those that were taken, in the order of the candidates
}

func (c *claim) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "directory_claim"
}

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

// Create takes the values. Those that the owner has already are kept.
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

// Read finds what the owner has; a claim without values leaves the state.
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

// Update takes more values or gives some back.
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

// Delete gives the values back.
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

// take makes the owner have as many values as it shall, and sets them.
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

// choose takes the first free values that the owner lacks, or none of them.
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

// own are the values of the owner, in the order of the candidates; what is no candidate any more comes first.
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

// taken are the owners of all values that are taken.
func (m *claimModel) taken() (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(m.Path.ValueString(), "value-*"))
	if err != nil {
		return nil, err
	}
	taken := map[string]string{}
	for _, file := range files {
		owner, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) { // given back since
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

func (m *claimModel) filename(value string) string {
	return filepath.Join(m.Path.ValueString(), "value-"+url.PathEscape(value))
}

// write makes the file of a value as a whole: whatever is killed, a value has an owner or is free.
func (m *claimModel) write(value string) error {
	temp := filepath.Join(m.Path.ValueString(), ".claim.tmp") // there is one writer
	if err := os.WriteFile(temp, []byte(m.Owner.ValueString()), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, m.filename(value))
}

func (m *claimModel) giveBack(values []string) error {
	for _, value := range values {
		if err := os.Remove(m.filename(value)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// locked calls f while nobody else changes the pool. The lock goes with the process.
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

func (m *claimModel) set(ctx context.Context, values []string) diag.Diagnostics {
	list, diags := types.ListValueFrom(ctx, types.StringType, values)
	m.Values = list
	return diags
}
