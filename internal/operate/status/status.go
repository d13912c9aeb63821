// Package status reports the condition of all bindings and service instances on one page: their numbers and versions,
// the unfinished, locked and failed ones, and the reasons to keep each installed pak.
package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/operate/audit"
	"service-adapter/internal/operate/states"
)

// A Report describes the stored bindings and service instances, the locks, the certificates that are due, the last
// failures and the installed paks at one time. It contains no secrets. Its JSON form is that of `service-adapter status
// --json`. New returns one; the zero value is not usable.
type Report struct {
	// Groups are the stored items by their properties, in the order of these properties. Every item is in one group.
	Groups []Group `json:"groups"`
	// Behind counts the items of each kind that the installed paks would create with other versions. It contains both
	// kinds, also if no item is stored.
	Behind map[lifecycle.Kind]*Behind `json:"behind"`
	// OldestUnfinished is the item whose last change is the oldest one of all that are neither complete nor unreadable.
	// It is nil if there is none.
	OldestUnfinished *Unfinished `json:"oldest_unfinished,omitempty"`
	// Locks are the locks that are held, sorted by workspace. It is nil if the backend does not list locks.
	Locks        []Lock       `json:"locks"`
	Certificates Certificates `json:"certificates"`
	// Failures are the last failures in the audit log, the oldest first. It is nil if no audit log is configured.
	Failures []audit.End `json:"failures"`
	// Paks are the readable paks in the order of the configuration, and UnreadablePaks the errors of all others.
	Paks           []Pak    `json:"paks"`
	UnreadablePaks []string `json:"unreadable_paks"`
	// backend is the type of the state backend.
	backend string
}

// A Group counts the stored bindings or service instances that have the same properties: kind, service, plan, pak,
// OpenTofu version, template and condition. A property that is not recorded is "". It is an element of the JSON of
// `status`, and a row of the table on the page.
type Group struct {
	Kind    lifecycle.Kind `json:"kind"`
	Service string         `json:"service,omitempty"`
	Plan    string         `json:"plan,omitempty"`
	lifecycle.AppliedWith
	// Template identifies the recorded template: the first characters of its digest, as in the findings of
	// `pak diff`. It is "" if the record cannot be read.
	Template  string              `json:"template,omitempty"`
	Condition lifecycle.Condition `json:"condition"`
	Count     int                 `json:"count"`
}

// A Behind counts the stored bindings, or the stored service instances, by how they differ from the newest installed
// pak with the recorded name: those that an older version of the pak, an older OpenTofu or another template created,
// those of a newer pak, and those without such a pak. An item can have several of the first three differences, and is
// counted for each. Unreadable items are counted only in the total. The zero value means that none is stored. It is
// part of the JSON of `status`.
type Behind struct {
	// Stored is the number of all items of the kind; unreadable ones are counted in no other field. Any is the number
	// of items that an older version of the pak or of OpenTofu, or another template, created. The items of Newer and
	// WithoutPak are not among the latter.
	Stored int `json:"stored"`
	Any    int `json:"behind"`
	// PakVersion, OpenTofu and Template are the numbers of items that differ in this property. An item can differ in
	// several of them.
	PakVersion int `json:"pak_version"`
	OpenTofu   int `json:"tofu_version"`
	Template   int `json:"template"`
	// Newer is the number of items whose recorded pak is newer than all installed paks of that name; see
	// lifecycle.OlderPak. WithoutPak is the number of items without any installed pak of the recorded name.
	Newer      int `json:"newer"`
	WithoutPak int `json:"without_pak"`
}

// An Unfinished is a stored binding or service instance that is neither complete nor unreadable, for example because
// its creation failed, with its condition and the time of its last change. It is part of the JSON of `status`. A nil
// *Unfinished means that there is none.
type Unfinished struct {
	Kind      lifecycle.Kind      `json:"kind"`
	ID        string              `json:"id"`
	Condition lifecycle.Condition `json:"condition"`
	// UpdatedAt is the time of its last change, and "" if an older release recorded none.
	UpdatedAt string `json:"updated_at,omitempty"`
}

// A Lock is a lock that a run holds on the state of a binding or a service instance, with its owner and its time if
// the backend reports them. Kind and ID identify the binding or instance. ID is the name of the workspace if that
// contains a hash instead of the id, or if another program chose it; Kind is "" only in the latter case. A Lock is an
// element of the JSON of `status`.
type Lock struct {
	Kind      lifecycle.Kind `json:"kind,omitempty"`
	ID        string         `json:"id"`
	Who       string         `json:"who,omitempty"`
	Operation string         `json:"operation,omitempty"`
	// Since is the time in the form of lifecycle.FormatTime.
	Since string `json:"since,omitempty"`
}

// failuresShown is the number of failures of the audit log in a report.
const failuresShown = 5

// New reads all states and the audit log, and returns the report on them and on the paks of operator. It calls
// progress, which may be nil, after each state. A state or a record that cannot be read is counted with the condition
// of an unreadable one. New changes no binding or instance, but it is not read-only: if OpenTofu has to read the
// states, empty workspaces are deleted, and incomplete state files of the backend local are restored. It waits for a
// running command only if that holds the lock of such a state; see lifecycle.Manager.Walk.
//
// New returns nil and an error if no pak has a usable OpenTofu, if the workspaces or the locks cannot be listed, if the
// audit log cannot be read, or if ctx ends. A missing audit log counts as empty.
func New(ctx context.Context, operator *states.Operator, progress lifecycle.Progress) (*Report, error) {
	report := &Report{
		Behind: map[lifecycle.Kind]*Behind{lifecycle.Binding: {}, lifecycle.Instance: {}},
		Groups: []Group{}, UnreadablePaks: []string{}, backend: operator.BackendType(),
	}
	for _, err := range operator.UnreadablePaks() {
		report.UnreadablePaks = append(report.UnreadablePaks, err.Error())
	}
	groups, requirements, survey := map[Group]int{}, newRequirements(), newSurvey()
	err := operator.Walk(ctx, "", progress, func(stored *lifecycle.Stored) error {
		template := requirements.add(stored)
		groups[Group{
			Kind: stored.Kind, Service: stored.Service, Plan: stored.Plan, AppliedWith: stored.AppliedWith,
			Template: template, Condition: stored.Condition,
		}]++
		report.compareWithPak(operator.Manager, stored, template)
		report.noteUnfinished(stored)
		survey.Add(stored)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for group, count := range groups {
		group.Count = count
		report.Groups = append(report.Groups, group)
	}
	slices.SortFunc(report.Groups, compareGroups)
	if err := report.addLocks(ctx, operator.Manager); err != nil {
		return nil, err
	}
	report.Certificates = dueCertificates(survey)
	report.Paks = needsOfPaks(operator.Paks, requirements)
	if path := operator.AuditLog(); path != "" {
		report.Failures, err = audit.LastFailures(ctx, failuresShown, path+".1", path)
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
	}
	return report, nil
}

// Unreadable reports whether the state of a stored binding or service instance, or a pak of the configuration, cannot
// be read.
func (r *Report) Unreadable() bool {
	return len(r.UnreadablePaks) > 0 || slices.ContainsFunc(r.Groups, func(group Group) bool {
		return group.Condition == lifecycle.Unreadable
	})
}

// compareGroups compares two groups for slices.SortFunc, by kind, service, plan, pak, the versions of pak and OpenTofu,
// template and condition, in this order. It returns a negative number, 0 or a positive number. Versions are compared as
// versions, so that 1.9.0 is before 1.10.0, and as texts if both are equal as versions. Count is not compared.
func compareGroups(a, b Group) int {
	return cmp.Or(
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Plan, b.Plan),
		cmp.Compare(a.Pak, b.Pak), opentofu.Compare(a.PakVersion, b.PakVersion), opentofu.Compare(a.Tofu, b.Tofu),
		cmp.Compare(a.PakVersion, b.PakVersion), cmp.Compare(a.Tofu, b.Tofu),
		cmp.Compare(a.Template, b.Template), cmp.Compare(a.Condition, b.Condition),
	)
}

// compareWithPak counts a stored binding or service instance in r.Behind of its kind, by how it differs from the newest
// installed pak with the recorded name. Every item is counted in Stored, and an unreadable one nowhere else. An item
// for whose name no pak with an OpenTofu is installed is otherwise counted only in WithoutPak, and one that is newer
// than the installed paks (see lifecycle.OlderPak) only in Newer. Any other item that was created with an older version
// of the pak or of OpenTofu, or with another template, is counted for each of these differences, and once in Any. The
// newest pak is the one with the newest default OpenTofu and, of several with that OpenTofu, the highest version.
//
// r.Behind must contain the kind. manager has the installed paks, and template is the first 12 characters of the digest
// of the item's recorded template.
func (r *Report) compareWithPak(manager *lifecycle.Manager, stored *lifecycle.Stored, template string) {
	behind := r.Behind[stored.Kind]
	behind.Stored++
	if stored.Condition == lifecycle.Unreadable {
		return
	}
	pak := lifecycle.FindPak(manager.Paks, stored.Pak, "")
	switch {
	case pak == nil:
		behind.WithoutPak++
		return
	case lifecycle.OlderPak(manager, stored) != nil:
		behind.Newer++
		return
	}
	tofu, _ := pak.Manifest.DefaultVersion() // FindPak returns only paks with an OpenTofu
	differs := func(count *int, different bool) bool {
		if different {
			*count++
		}
		return different
	}
	olderPak := differs(&behind.PakVersion, opentofu.Older(stored.PakVersion, pak.Manifest.Version))
	olderTofu := differs(&behind.OpenTofu, opentofu.Older(stored.Tofu, tofu))
	otherTemplate := differs(&behind.Template, hasOtherTemplate(pak, stored, template))
	if olderPak || olderTofu || otherTemplate {
		behind.Any++
	}
}

// hasOtherTemplate reports whether pak has a template for the service and the kind of a stored binding or service
// instance that differs from its recorded one. template is the first 12 characters of the digest of the recorded
// template; "" differs from every template. hasOtherTemplate returns false if the pak does not have the service, or
// has no template for this kind.
func hasOtherTemplate(pak *brokerpak.Pak, stored *lifecycle.Stored, template string) bool {
	service := pak.Service(stored.Service)
	if service == nil {
		return false
	}
	action := service.Bind
	if stored.Kind == lifecycle.Instance {
		action = service.Provision
	}
	return len(action.Templates) > 0 && identify(action.Templates) != template
}

// templateDigits is the number of digits of a digest that identify a template on the page.
const templateDigits = 12

// identify returns the first 12 characters (templateDigits) of the digest of a template, by which the page of `status`
// and the findings of `pak diff` identify the template. files maps the names of the template's files to their contents.
func identify(files map[string]string) string { return brokerpak.Digest(files)[:templateDigits] }

// noteUnfinished sets r.OldestUnfinished to a binding or service instance that is neither complete nor unreadable, if
// r.OldestUnfinished is nil or was changed later. An item without a time counts as the oldest, because an older
// release recorded it. Of items with equal times, the first one stays. Any other item changes nothing.
func (r *Report) noteUnfinished(stored *lifecycle.Stored) {
	finished := stored.Condition == lifecycle.Complete || stored.Condition == lifecycle.Unreadable
	if finished || r.OldestUnfinished != nil && r.OldestUnfinished.UpdatedAt <= stored.UpdatedAt {
		return
	}
	r.OldestUnfinished = &Unfinished{
		Kind: stored.Kind, ID: stored.ID, Condition: stored.Condition, UpdatedAt: stored.UpdatedAt,
	}
}

// addLocks sets r.Locks, which must be nil, to the locks of states that are held at this moment, sorted by workspace.
// It is an empty list, which is not nil, if none is held, and stays nil if the state backend cannot list locks.
// addLocks returns an error if the locks cannot be read or ctx ends.
func (r *Report) addLocks(ctx context.Context, manager *lifecycle.Manager) error {
	locks, listed, err := manager.Engine.Locks(ctx)
	if err != nil {
		return fmt.Errorf("listing the locks of states: %w", err)
	}
	if listed {
		r.Locks = []Lock{}
	}
	for _, held := range locks {
		lock := Lock{ID: held.Workspace, Who: held.Who, Operation: held.Operation}
		if kind, id, ok := lifecycle.ParseWorkspace(held.Workspace); ok {
			lock.Kind, lock.ID = kind, id
		}
		if !held.Since.IsZero() {
			lock.Since = lifecycle.FormatTime(held.Since)
		}
		r.Locks = append(r.Locks, lock)
	}
	return nil
}
