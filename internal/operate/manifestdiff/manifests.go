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

// OfManifests returns the differences between two manifests, which are YAML texts, in the parts that the broker
// compares, with their reasons and effects. The manifests must differ according to odb.SameManifests: if no difference
// is detected, the result is a single change with the path "/", which means that one of them has an empty list or
// mapping that the other lacks. The values in the changes are not masked; see Mask. OfManifests returns nil and an
// error if a manifest, or the record in the deployed or generated one, cannot be decoded.
//
// again is the manifest that a second call generated; a change whose path is also that of a difference between
// generated and again has the reason that the value is not deterministic. A caller that does not need this check passes
// generated for again. edited means that the text of the deployed manifest is not in the form in which the adapter
// writes it, probably because an operator edited it; if that manifest has a record, the reasons for differences that
// are deterministic mention this.
//
// inputReason returns the reason for a change that an input causes, or "" for all other changes, which get a reason by
// their path and the records. It may be nil, and is called only if the deployed manifest has a record and the generated
// value is deterministic. Effects are not set yet when it is called.
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

// Between returns the differences between first and second, the YAML texts of the manifests that two plans generate for
// the same request, in the parts that the broker compares. Deployed and Generated of a change are the values of first
// and of second, and the effect is that of an update from the first plan to the second. again is the manifest of the
// first plan from a second call: a change whose path is also that of a difference between first and again is left out,
// because its value changes with each call. Reasons are not set, and values are not masked; see Mask. The result is
// empty if there are no differences. Between returns nil and an error if a manifest cannot be decoded.
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

// withoutPaths returns the elements of changes whose paths no element of others has, in the same order. It overwrites
// and shortens the slice changes, which the caller must not use afterwards; others is not changed.
func withoutPaths(changes, others []Change) []Change {
	return slices.DeleteFunc(changes, func(change Change) bool {
		return slices.ContainsFunc(others, func(other Change) bool { return other.Path == change.Path })
	})
}

// OfResources returns a change for each resource that OpenTofu has planned to change, in the order of
// planned.Resources. The change has the address of the resource as its path, the action of OpenTofu, the reasons for
// the run and the effect. If OpenTofu would run without changing a resource, the result is a single change with the
// path "outputs". It is nil if OpenTofu would not run, which means that planned has neither resources nor reasons.
// planned is not changed.
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

// OfSecrets returns a change for each name in renewed, which are the names of the secrets whose values the next upgrade
// replaces, in the same order. Each change has the path "secrets/name=" followed by the name, a fixed reason and the
// effect Credentials; it does not contain the values. The result is nil if renewed is empty.
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

// comparedTree decodes the YAML text of a manifest and returns the parts that the broker compares before an update,
// without update blocks, as a normalised tree of maps, lists and scalars. In the jobs apply-instance, the JSON text of
// the property "intent" is replaced by its decoded value. comparedTree returns nil and an error if the text is not
// valid YAML or does not fit the broker's structure of a manifest.
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

// decodeIntents replaces, in the tree of a manifest, the JSON text of the property "intent" of each job apply-instance
// by its decoded value, so that Diff compares the parts of the text. It changes the tree in place. A text that is
// neither a JSON object nor null is kept. It does nothing if the tree is not a mapping with instance groups.
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

// reasonOf returns a sentence on the probable reason for a difference at path, such as "/instance_groups/name=db/azs",
// which it derives from the parameters alone. It is never "". unstable means that the generated value differs in each
// call. stored and current are the records of the deployed and the generated manifest; nil means that the manifest has
// none. The reason is the first of these that applies:
//   - unstable is true: the template is not deterministic.
//   - The path is "/": only an empty list or mapping differs.
//   - stored is nil: values that a user or another adapter set are not known.
//   - The path is that of a value from the plan, or of releases or stemcells: these changed.
//   - The records name different versions of the pak: the template changed. Versions are not compared if current is
//     nil.
//   - Otherwise: the template, the plan or the operator's configuration changed.
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
		return "plan changed: the broker's configuration contains another value"
	case regexp.MustCompile(deploymentPath).MatchString(path):
		return "releases or stemcells changed"
	case current != nil && stored.PakVersion != current.PakVersion:
		return fmt.Sprintf("template changed: version %s of the pak generated the manifest, "+
			"and version %s is installed", stored.PakVersion, current.PakVersion)
	default:
		return "template or plan changed: a plan property, a default or the operator's configuration, " +
			"or the pak without a new version"
	}
}

// Mask replaces the secrets in the values of changes, in place. secrets, which must not be nil, contains the known
// secrets. Mask first adds to it the values that only their key identifies as secret, such as that of "password",
// passwords in URLs, and texts that look like generated secrets; these are therefore masked in all changes of this and
// later calls.
//
// A scalar that contains a secret becomes a text; all others keep their type. A scalar that cannot be masked within
// redact.Limit, one second, is replaced by the text redact.Withheld. Keys of mappings, paths and reasons are not
// masked.
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
