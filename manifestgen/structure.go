package manifestgen

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	yamlv2 "gopkg.in/yaml.v2"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// validateManifest returns an error if a finished manifest is invalid, and nil otherwise. structure is a function that
// validates the manifest against a schema; its error is returned first. The other reasons are that names in the
// manifest are inconsistent (see checkNames), and that the broker's Go struct cannot decode text, the same manifest as
// YAML. The broker decodes the deployed manifest before every update, so such a manifest would block all updates.
func validateManifest(structure func(manifest map[string]any) error, manifest map[string]any, text string) error {
	if err := cmp.Or(structure(manifest), checkNames(manifest)); err != nil {
		return err
	}
	var decoded bosh.BoshManifest
	if err := yamlv2.Unmarshal([]byte(text), &decoded); err != nil {
		return fmt.Errorf("the broker cannot read it, so that every update would fail: %w", err)
	}
	return nil
}

// checkNames checks the Director's rules on names, which a schema cannot express. The names of releases, instance
// groups, addons and variables, the aliases of stemcells, and the names of the jobs within a group or addon must be
// unique. The stemcell that an instance group or addon names must be in the manifest, and so must the release of every
// job; a job without a release is a violation. checkNames returns all violations, joined, and nil if there are none.
// Entries that are not mappings are ignored.
func checkNames(manifest map[string]any) error {
	var failed []error
	namesOf := func(where string, list any, key string) map[string]bool {
		names := map[string]bool{}
		for _, entry := range value.Mappings(list) {
			name := value.Text(entry[key])
			if names[name] {
				failed = append(failed, fmt.Errorf("%s has %q twice", where, name))
			}
			names[name] = true
		}
		return names
	}
	releases := namesOf("releases", manifest["releases"], "name")
	stemcells := namesOf("stemcells", manifest["stemcells"], "alias")
	for _, list := range []string{"instance_groups", "addons", "variables"} {
		namesOf(list, manifest[list], "name")
	}
	for _, owner := range []string{"instance_groups", "addons"} {
		for _, entry := range value.Mappings(manifest[owner]) {
			where := owner + "/" + value.Text(entry["name"])
			if alias, ok := entry["stemcell"]; ok && !stemcells[value.Text(alias)] {
				failed = append(failed, fmt.Errorf("%s names the stemcell %q; the deployment has: %s",
					where, alias, diag.Names(value.Keys(stemcells))))
			}
			namesOf(where+"/jobs", entry["jobs"], "name")
			for _, job := range value.Mappings(entry["jobs"]) {
				if !releases[value.Text(job["release"])] {
					failed = append(failed, fmt.Errorf("%s/jobs/%s names the release %q; the deployment has: %s",
						where, value.Text(job["name"]), job["release"], diag.Names(value.Keys(releases))))
				}
			}
		}
	}
	return errors.Join(failed...)
}
