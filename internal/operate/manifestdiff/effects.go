package manifestdiff

import (
	"regexp"
	"slices"
	"strings"

	"service-adapter/internal/record"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// An Effect is the effect of a change on an instance when it is deployed. A greater value is more severe.
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

// String returns the name of the effect in the output of commands. It panics for a value that is not one of the
// constants.
func (e Effect) String() string {
	return []string{"none", "metadata", "restart", "recreate", "opentofu", "credentials", "data-at-risk", "error"}[e]
}

// MarshalText encodes the effect as its name. The error is always nil.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// An EffectRule assigns an effect to a kind of change. Of the rules in the order of EffectRules, the first one that
// matches a change applies.
type EffectRule struct {
	// Changes describes the changes that the rule matches.
	Changes string
	Effect  Effect
	// Consequence is what BOSH or OpenTofu does.
	Consequence string
	matches     func(s subject) bool
}

// EffectRules returns all rules in the order in which they are tried; the last one matches every change. The caller
// must not change the slice. The rules describe the behaviour of the BOSH Director: it recreates a VM for another
// stemcell, network, environment or other cloud properties. For all other changes it stops and starts the jobs of the
// VM.
func EffectRules() []EffectRule { return effectRules }

var effectRules = []EffectRule{ //nolint:gochecknoglobals // a constant table
	rule("OpenTofu destroys or replaces a resource", DataAtRisk, "what the resource holds is lost",
		func(s subject) bool { return s.OpenTofu == tfjson.Destroy || s.OpenTofu == tfjson.Replace }),
	rule("an upgrade gives a secret another value", Credentials,
		"credentials of bindings that contain the value change with it: the apps must be bound again",
		func(s subject) bool { return s.Secret != "" }),
	rule("OpenTofu makes or changes a resource, or outputs", OpenTofuRuns, "OpenTofu does it with the next update",
		func(s subject) bool { return s.OpenTofu != "" }),
	rule("an instance group that is an errand, in whole or in part", Metadata, "it has no VM until it runs",
		func(s subject) bool { return s.group != "" && !hasVMs(s.before) && !hasVMs(s.after) }),
	rule("an instance group goes, and another one has it in `migrated_from`", Recreate,
		"its instances go on in the other group, with their disks",
		func(s subject) bool { return hasVMs(s.before) && s.after == nil && s.migrated }),
	rule("an instance group goes, has a new name without `migrated_from`, or becomes an errand", DataAtRisk,
		"its VMs are deleted and their disks orphaned",
		func(s subject) bool { return hasVMs(s.before) && !hasVMs(s.after) }),
	rule("fewer `instances`", DataAtRisk, "VMs are deleted and their disks orphaned",
		func(s subject) bool { return s.isIn("instances") && fewer(s.Deployed, s.Generated) }),
	rule("another `persistent_disk_type` or none", DataAtRisk,
		"the data is copied to another disk, which must be large enough; without one the disk is orphaned",
		func(s subject) bool { return s.isIn("persistent_disk_type") && s.Deployed != nil }),
	rule("an instance group with a persistent disk loses one of its `azs`", DataAtRisk,
		"VMs there are deleted and their disks orphaned",
		func(s subject) bool { return s.isIn("azs") && s.before["persistent_disk_type"] != nil && s.removesAZ() }),
	rule("a `((reference))` or a secret value goes from the manifest", Credentials,
		"bindings whose credentials contain it lose them: the apps must be bound again",
		func(s subject) bool { return s.losesCredential }),
	rule("the order of a list, `tags`, `migrated_from`, a release or a variable that comes or goes, "+
		"the `alias` of a stemcell", Metadata,
		"no job is stopped for it", func(s subject) bool {
			return s.reordered || s.isIn("migrated_from") || quietPaths.MatchString(s.Path)
		}),
	rule("`vm_type`, `vm_extensions`, `networks`, `azs`, `stemcell`, `env`, `name` "+
		"or a new `persistent_disk_type` of an instance group, a stemcell", Recreate,
		"VMs are made anew, with their persistent disks", func(s subject) bool {
			return strings.HasPrefix(s.Path, "/stemcells") ||
				s.isIn("vm_type", "vm_extensions", "vm_resources", "networks", "azs", "stemcell", "env", "name",
					"persistent_disk_type")
		}),
	rule("a new instance group, or more `instances`", Restart, "VMs are added; jobs with links to them restart",
		func(s subject) bool { return s.group != "" && s.before == nil || s.isIn("instances") }),
	rule("anything else: jobs, their properties, a version of a release, an option of a variable, `addons`, `features`",
		Restart,
		"jobs restart whose configuration or packages change", func(subject) bool { return true }),
}

// rule returns an EffectRule with these fields: a description of the changes, their effect, and its consequence.
// matches reports whether the rule applies to a change.
func rule(changes string, effect Effect, consequence string, matches func(s subject) bool) EffectRule {
	return EffectRule{Changes: changes, Effect: effect, Consequence: consequence, matches: matches}
}

// quietPaths matches the paths of changes for which no job is stopped.
var quietPaths = regexp.MustCompile(`^/tags(/|$)|^/(releases|variables)/name=[^/]+$|^/stemcells/\d+/alias$`)

// A subject is a change with the instance group that contains it.
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

// isIn reports whether the change is at or below one of these keys of an instance group. It returns false for a change
// outside of instance groups or of a whole group.
func (s subject) isIn(keys ...string) bool { return slices.Contains(keys, s.key) }

// removesAZ reports whether the generated group lacks an AZ of the deployed one. A group that does not exist has no
// AZs.
func (s subject) removesAZ() bool {
	before, _ := s.before["azs"].([]any)
	after, _ := s.after["azs"].([]any)
	return slices.ContainsFunc(before, func(az any) bool { return !slices.Contains(after, az) })
}

// hasVMs reports whether an instance group exists and is not an errand.
func hasVMs(group map[string]any) bool { return group != nil && group["lifecycle"] != "errand" }

// fewer reports whether the generated number of instances is less than the deployed one. A value that is not an integer
// counts as 0.
func fewer(deployed, generated any) bool {
	before, _ := deployed.(int64)
	after, _ := generated.(int64)
	return after < before
}

// groupsOf returns the instance groups of a manifest by name, or nil if not all have unique names. See byName for
// deployed and for the names of migrated groups.
func groupsOf(manifest any, deployed map[string]any) map[string]any {
	tree, _ := manifest.(map[string]any)
	list, _ := tree["instance_groups"].([]any)
	groups, _ := byName(list, deployed)
	return groups
}

// setEffects sets the effect and consequence of each element of changes, which are those from the deployed to the
// generated manifest. The manifests are nil for changes of resources and of secrets. stored is the record of the
// deployed manifest, or nil.
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
