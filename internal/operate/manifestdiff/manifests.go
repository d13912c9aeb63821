package manifestdiff

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v2"

	"service-adapter/internal/engine/provision"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// OfManifests returns the differences between two manifests, in the parts that the broker compares, with their reasons
// and effects. The manifests must differ according to odb.SameManifests: if no difference is found, one of them has an
// empty list or mapping that the other lacks, and the result is a single change with the path "/". again is the
// generated manifest as a second call returned it; values that differ between both calls are not deterministic. A
// caller that does not need this check passes generated again. edited says that the text of the deployed manifest is
// not as the adapter writes it; see manifestgen.IsAsWritten. The values in the changes are not masked; see Mask.
// OfManifests returns an error if a manifest, or the record of the deployed or generated one, cannot be decoded.
//
// The function inputReason returns the reason for a change that an input causes, or "" for all other changes. It may be
// nil, and is called only if the deployed manifest has a record and the generated value is deterministic.
func OfManifests(
	deployed, generated, again string, edited bool, inputReason func(change Change) string,
) ([]Change, error) {
	stored, storedErr := record.FromManifest(deployed)
	current, currentErr := record.FromManifest(generated)
	before, beforeErr := comparedTree(deployed)
	after, afterErr := comparedTree(generated)
	second, secondErr := comparedTree(again)
	if err := cmp.Or(storedErr, currentErr, beforeErr, afterErr, secondErr); err != nil {
		return nil, err
	}
	unstable := map[string]bool{}
	for _, change := range Diff("", after, second) {
		unstable[change.Path] = true
	}
	changes := Diff("", before, after)
	if len(changes) == 0 {
		changes = []Change{{Path: "/"}} // one has an empty list that the other lacks
	}
	for i := range changes {
		changes[i].Reason = reasonOf(changes[i].Path, unstable[changes[i].Path], stored, current)
		if stored == nil || unstable[changes[i].Path] {
			continue
		}
		if inputReason != nil {
			changes[i].Reason = cmp.Or(inputReason(changes[i]), changes[i].Reason)
		}
		if edited {
			changes[i].Reason = editedByHand + changes[i].Reason
		}
	}
	setEffects(changes, before, after, stored)
	return changes, nil
}

// Between returns the differences between the manifests that two plans generate for the same request, in the parts that
// the broker compares, with their effects. Deployed and Generated are the values of the manifest of the first and of
// the second plan, and the effect is that of an update from the first to the second. again is the manifest of the first
// plan as a second call returned it: values that differ between both calls, because the adapter generates them, are no
// differences between the plans. Reasons are not set. The values are not masked; see Mask. Between returns an error if
// a manifest cannot be decoded.
func Between(first, again, second string) ([]Change, error) {
	before, beforeErr := comparedTree(first)
	repeated, repeatedErr := comparedTree(again)
	after, afterErr := comparedTree(second)
	if err := cmp.Or(beforeErr, repeatedErr, afterErr); err != nil {
		return nil, err
	}
	changes := withoutPaths(Diff("", before, after), Diff("", before, repeated))
	setEffects(changes, before, after, nil)
	return changes, nil
}

// withoutPaths returns the changes whose paths none of the others has, in the same order. It overwrites the slice
// changes.
func withoutPaths(changes, others []Change) []Change {
	return slices.DeleteFunc(changes, func(change Change) bool {
		return slices.ContainsFunc(others, func(other Change) bool { return other.Path == change.Path })
	})
}

// OfResources returns the changes of resources that OpenTofu has planned, with their reasons and effects. If OpenTofu
// would run without changing a resource, the result is one change of "outputs". It is nil if OpenTofu would not run.
func OfResources(planned provision.Planned) []Change {
	reason := "OpenTofu runs with the next update: " + strings.Join(planned.Reasons, "; ")
	var changes []Change
	for _, planned := range planned.Resources {
		changes = append(changes, Change{Path: planned.Address, OpenTofu: planned.Action, Reason: reason})
	}
	if len(changes) == 0 && len(planned.Reasons) > 0 {
		changes = []Change{{Path: "outputs", OpenTofu: tfjson.Update, Reason: reason}}
	}
	setEffects(changes, nil, nil, nil)
	return changes
}

// renew is the change of a secret that gets another value.
const renew = "renew"

// OfSecrets returns a change for each of these names of secrets, which an upgrade gives another value, with its reason
// and effect. The result is nil if there are none.
func OfSecrets(renewed []string) []Change {
	var changes []Change
	for _, name := range renewed {
		changes = append(changes, Change{
			Path: "secrets/name=" + name, Secret: renew,
			Reason: "the next upgrade gives the secret another value: its keepers or the value that the operator " +
				"supplies changed",
		})
	}
	setEffects(changes, nil, nil, nil)
	return changes
}

// comparedTree returns a manifest as a tree of values, with the parts that the broker compares and with decoded
// intents. See odb.Compared. It returns an error if the text cannot be decoded.
func comparedTree(text string) (any, error) {
	manifest, err := odb.Compared(text)
	if err != nil {
		return nil, err
	}
	encoded, err := yaml.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	var raw any
	if err := yaml.Unmarshal(encoded, &raw); err != nil {
		return nil, err
	}
	tree := value.Normalise(raw)
	decodeIntents(tree)
	return tree, nil
}

// decodeIntents replaces, in the tree of a manifest, the JSON text of the property "intent" of the jobs apply-instance
// by its decoded value, so that Diff compares its parts. It changes the tree. A text that is not a JSON object is kept.
func decodeIntents(tree any) {
	manifest, _ := tree.(map[string]any)
	for _, group := range value.Mappings(manifest["instance_groups"]) {
		for _, job := range value.Mappings(group["jobs"]) {
			properties, _ := job["properties"].(map[string]any)
			text, _ := properties["intent"].(string)
			if intent, err := value.DecodeObject([]byte(text)); err == nil && job["name"] == record.ApplyErrand {
				properties["intent"] = intent
			}
		}
	}
}

// editedByHand begins the reason for a difference from a manifest that an operator edited. The difference may have
// another reason, which follows.
const editedByHand = "edited by hand: the text of the deployed manifest is not as the adapter writes it; otherwise "

const (
	// planPath matches the paths whose values come from the plan, and deploymentPath those from the broker's
	// deployment.
	planPath = `^/instance_groups(/[^/]+(/(instances|vm_type|vm_extensions|networks|azs|persistent_disk_type|` +
		`lifecycle|migrated_from)(/.*)?)?)?$`

	deploymentPath = `^/(releases|stemcells)(/.*)?$`
)

// reasonOf returns the probable reason for a difference at a path, according to the path and the records alone; it is
// never "". unstable says that the generated value differs in each call. stored and current are the records of the
// deployed and the generated manifest; nil means that the manifest has none. If nothing else applies, the reason is
// that the template or the plan changed.
func reasonOf(path string, unstable bool, stored, current *record.InstanceRecord) string {
	switch {
	case unstable:
		return "not deterministic: the template gives another value each time"
	case path == "/":
		return "one of them has an empty list or mapping where the other one has none"
	case stored == nil:
		return "parameter lost: the deployed manifest has no record of this adapter, so values that a user or " +
			"another adapter set are not known; see carry_over"
	case regexp.MustCompile(planPath).MatchString(path):
		return "plan changed: the broker's configuration says something else now"
	case regexp.MustCompile(deploymentPath).MatchString(path):
		return "releases or stemcells changed"
	case current != nil && stored.PakVersion != current.PakVersion:
		return fmt.Sprintf("template changed: the manifest was made by version %s of the pak, version %s is installed",
			stored.PakVersion, current.PakVersion)
	default:
		return "template or plan changed: a plan property, a default or the operator's configuration, " +
			"or the pak without a new version"
	}
}

// Mask replaces the secrets in the values of the changes, in place. Values that only their key identifies as secrets
// are added to secrets first, and are masked in all changes.
func Mask(changes []Change, secrets *redact.Secrets) {
	for _, change := range changes {
		secrets.AddValues(map[string]any{path.Base(change.Path): []any{change.Deployed, change.Generated}})
	}
	masked := func(leaf any) (any, error) {
		text := value.Text(leaf)
		if clean := secrets.Clean(text); clean != text {
			return clean, nil
		}
		return leaf, nil
	}
	for i := range changes {
		changes[i].Deployed, _ = value.Map(changes[i].Deployed, masked)
		changes[i].Generated, _ = value.Map(changes[i].Generated, masked)
	}
}
