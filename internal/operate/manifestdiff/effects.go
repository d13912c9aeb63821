package manifestdiff

import (
	"regexp"
	"slices"
	"strings"

	"service-adapter/internal/record"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// An Effect is the effect that the deployment of a change has on a service instance. A greater value is more severe. In
// ascending order, the effects are NoEffect, the zero value; Metadata, for which no job is stopped; Restart of jobs;
// Recreate, for new VMs that keep their persistent disks; OpenTofuRuns, for resources or outputs that OpenTofu creates
// or changes; Credentials, after which apps must be bound again; DataAtRisk, for data that may be lost or disks that
// are orphaned; and Unknown, for an instance that cannot be checked.
type Effect int

// The effects, in ascending severity. Unknown is the effect for an instance that cannot be checked.
const (
	NoEffect Effect = iota
	Metadata
	Restart
	Recreate
	OpenTofuRuns
	Credentials
	DataAtRisk
	Unknown
)

// String returns the name of the effect in the output of commands: "none", "metadata", "restart", "recreate",
// "opentofu", "credentials", "data-at-risk" or "error", in ascending severity. It panics for a value that is not one of
// the constants.
func (e Effect) String() string {
	return []string{"none", "metadata", "restart", "recreate", "opentofu", "credentials", "data-at-risk", "error"}[e]
}

// MarshalText returns the name of the effect, such as "restart", by which JSON contains it. The error is always nil. It
// panics for a value that is not one of the constants.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// An EffectRule assigns an effect and its consequence to a kind of change. It has a description of the changes for the
// documentation, and a function that reports whether it matches a change. Of the rules in the order of EffectRules, the
// first one that matches a change applies. The zero value is not a valid rule.
type EffectRule struct {
	// Changes describes the changes that the rule matches.
	Changes string
	Effect  Effect
	// Consequence is what BOSH or OpenTofu does.
	Consequence string
	matches     func(s subject) bool
}

// EffectRules returns all rules in the order in which they are tried; the last one matches every change. The caller
// must not change the slice, which is shared by all callers. The rules describe the behaviour of the BOSH Director,
// which recreates a VM for another stemcell, network, environment or other cloud properties and otherwise stops and
// starts its jobs, and of OpenTofu.
func EffectRules() []EffectRule { return effectRules }

var effectRules = []EffectRule{ //nolint:gochecknoglobals // a constant table
	rule("OpenTofu destroys or replaces a resource", DataAtRisk, "the content of the resource is lost",
		func(s subject) bool { return s.OpenTofu == tfjson.Destroy || s.OpenTofu == tfjson.Replace }),
	rule("an upgrade gives a secret another value", Credentials,
		"credentials of bindings that contain the value change with it: the apps must be bound again",
		func(s subject) bool { return s.Secret != "" }),
	rule("OpenTofu creates or changes a resource, or outputs change", OpenTofuRuns,
		"OpenTofu applies the change with the next update",
		func(s subject) bool { return s.OpenTofu != "" }),
	rule("an instance group that is an errand is added, changed or removed", Metadata, "it has no VM until it runs",
		func(s subject) bool { return s.group != "" && !hasVMs(s.before) && !hasVMs(s.after) }),
	rule("an instance group is removed, and another group names it in `migrated_from`", Recreate,
		"its instances continue in the other group and keep their disks",
		func(s subject) bool { return hasVMs(s.before) && s.after == nil && s.migrated }),
	rule("an instance group is removed, is renamed without `migrated_from`, or becomes an errand", DataAtRisk,
		"its VMs are deleted and their disks orphaned",
		func(s subject) bool { return hasVMs(s.before) && !hasVMs(s.after) }),
	rule("the number of `instances` decreases", DataAtRisk, "VMs are deleted and their disks orphaned",
		func(s subject) bool { return s.isIn("instances") && fewer(s.Deployed, s.Generated) }),
	rule("`persistent_disk_type` changes or is removed", DataAtRisk,
		"the data is copied to another disk, which must be large enough; without one the disk is orphaned",
		func(s subject) bool { return s.isIn("persistent_disk_type") && s.Deployed != nil }),
	rule("an instance group with a persistent disk loses one of its `azs`", DataAtRisk,
		"VMs there are deleted and their disks orphaned",
		func(s subject) bool { return s.isIn("azs") && s.before["persistent_disk_type"] != nil && s.removesAZ() }),
	rule("a `((reference))` or a secret value is removed from the manifest", Credentials,
		"bindings whose credentials contain it lose them: the apps must be bound again",
		func(s subject) bool { return s.losesCredential }),
	rule("the order of a list, `tags`, `migrated_from` or the `alias` of a stemcell changes, "+
		"or a release or a variable is added or removed", Metadata,
		"no job is stopped for it", func(s subject) bool {
			return s.reordered || s.isIn("migrated_from") || quietPaths.MatchString(s.Path)
		}),
	rule("`vm_type`, `vm_extensions`, `networks`, `azs`, `stemcell`, `env` or `name` of an instance group changes, "+
		"a group gets its first `persistent_disk_type`, or a stemcell changes", Recreate,
		"VMs are recreated and keep their persistent disks", func(s subject) bool {
			return strings.HasPrefix(s.Path, "/stemcells") ||
				s.isIn("vm_type", "vm_extensions", "vm_resources", "networks", "azs", "stemcell", "env", "name",
					"persistent_disk_type")
		}),
	rule("an instance group is added, or the number of `instances` increases", Restart,
		"VMs are added; jobs with links to them restart",
		func(s subject) bool { return s.group != "" && s.before == nil || s.isIn("instances") }),
	rule("any other change: jobs, their properties, a version of a release, an option of a variable, `addons`, "+
		"`features`", Restart,
		"jobs restart whose configuration or packages change", func(subject) bool { return true }),
}

// rule returns an EffectRule with these fields. changes describes the matching changes in a clause, such as "the number
// of `instances` decreases", effect is their effect, and consequence describes it in another one, such as "VMs are
// deleted". matches reports whether the rule applies to a change; it must not be nil.
func rule(changes string, effect Effect, consequence string, matches func(s subject) bool) EffectRule {
	return EffectRule{Changes: changes, Effect: effect, Consequence: consequence, matches: matches}
}

// quietPaths matches the paths of changes for which no job is stopped.
var quietPaths = regexp.MustCompile(`^/tags(/|$)|^/(releases|variables)/name=[^/]+$|^/stemcells/\d+/alias$`)

// A subject is a change together with its context, which the functions of EffectRules inspect: the instance group that
// contains it, as deployed and as generated, and the key in the group. It also states whether the change removes a
// credential from the manifest, and whether a generated group names this group in migrated_from. A group is nil if that
// manifest lacks it, the key is "" if the whole group changes, and a change outside of instance groups has no group and
// no key. The embedded Change must not be nil.
type subject struct {
	*Change
	// group is the deployed name of the instance group, or "" outside of instance groups. key is the key in the group
	// that changes, or "" for the whole group.
	group, key string
	// before and after are the group as deployed and as generated; nil if it does not exist.
	before, after map[string]any
	// losesCredential reports that the change removes a credential from the manifest.
	losesCredential bool
	// migrated reports that a generated group names this one in migrated_from.
	migrated bool
}

// isIn reports whether the change is at or below one of these keys of an instance group, such as "azs". It returns
// false for a change outside of instance groups, for one that adds or removes a whole group, and without keys.
func (s subject) isIn(keys ...string) bool { return slices.Contains(keys, s.key) }

// removesAZ reports whether the generated instance group lacks an AZ of the deployed one. A group that does not exist
// has no AZs: without a deployed group, removesAZ returns false.
func (s subject) removesAZ() bool {
	before, _ := s.before["azs"].([]any)
	after, _ := s.after["azs"].([]any)
	return slices.ContainsFunc(before, func(az any) bool { return !slices.Contains(after, az) })
}

// hasVMs reports whether an instance group, which is a mapping of a manifest, exists and is not an errand. It returns
// false for nil, which means that the group does not exist.
func hasVMs(group map[string]any) bool { return group != nil && group["lifecycle"] != "errand" }

// fewer reports whether generated, a number of instances, is less than deployed. A value that is not an int64, such as
// nil for a missing number, counts as 0.
func fewer(deployed, generated any) bool {
	before, _ := deployed.(int64)
	after, _ := generated.(int64)
	return after < before
}

// groupsOf returns the instance groups of a manifest, a normalised tree, by name. deployed contains the groups of the
// deployed manifest by name, and is nil if manifest is the deployed one. A group whose own name is not in deployed,
// but that names a group of deployed in migrated_from, has the name of that deployed group in the result. groupsOf
// returns nil if a group has no name or two groups have the same one, and an empty map if manifest is nil or has no
// groups.
func groupsOf(manifest any, deployed map[string]any) map[string]any {
	tree, _ := manifest.(map[string]any)
	list, _ := tree["instance_groups"].([]any)
	groups, _ := byName(list, deployed)
	return groups
}

// setEffects sets Effect and Consequence of each element of changes, in place, by the first rule of EffectRules that
// matches; the last rule matches every change. deployed and generated are the manifests between which changes are the
// differences, as normalised trees; both are nil for changes of resources and of secrets. stored is the record of the
// deployed manifest, whose secrets help to detect lost credentials, or nil if it has none.
func setEffects(changes []Change, deployed, generated any, stored *record.InstanceRecord) {
	bindings := newCredentials(generated, stored)
	before := groupsOf(deployed, nil)
	after := groupsOf(generated, before)
	migrated := map[any]bool{}
	for _, group := range after {
		tree, _ := group.(map[string]any)
		for _, from := range value.Mappings(tree["migrated_from"]) {
			migrated[from["name"]] = true
		}
	}
	inGroup := regexp.MustCompile(`^/instance_groups/name=([^/]+)(?:/([^/]+))?`)
	for i := range changes {
		s := subject{Change: &changes[i], losesCredential: bindings.lostBy(&changes[i])}
		if match := inGroup.FindStringSubmatch(s.Path); match != nil {
			s.group, s.key, s.migrated = match[1], match[2], migrated[match[1]]
			s.before, _ = before[s.group].(map[string]any)
			s.after, _ = after[s.group].(map[string]any)
		}
		first := effectRules[slices.IndexFunc(effectRules, func(rule EffectRule) bool { return rule.matches(s) })]
		s.Effect, s.Consequence = first.Effect, first.Consequence
	}
}
