package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
	yamlv2 "gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// checkReferences refuses every ((reference)) of the manifest that nothing will resolve, or that would resolve to another's
// credential. It returns all of them; the error is a diag.Errors.
func (w *generation) checkReferences(result *rendered) ([]string, error) {
	mentioned := mentions(result.tree)
	all := referencesIn(mentioned)
	for _, found := range all {
		for _, chosen := range w.secrets {
			if chosen.lost != nil && found == chosen.reference {
				return nil, chosen.lost
			}
		}
	}
	return all, eachReference(result, mentioned, func(found string) string {
		for _, chosen := range w.secrets {
			if found == chosen.reference {
				return ""
			}
		}
		return w.unresolved(found, result.declared)
	})
}

// checkConfig does the same for a BOSH config. It cannot refer to a secret, because the broker stores those that the manifest
// refers to, and replaces references only there.
func (w *generation) checkConfig(kind string, result *rendered) error {
	return eachReference(result, mentions(result.tree), func(found string) string {
		for name, chosen := range w.secrets {
			if found == chosen.reference {
				return fmt.Sprintf("is secret %q, which the %s config cannot refer to: the broker manages secrets of the manifest only", name, kind)
			}
		}
		return w.unresolved(found, result.declared)
	})
}

// eachReference collects the faults of all references; fault ends a sentence and is "" for none.
func eachReference(result *rendered, mentioned []mention, fault func(found string) string) error {
	diags := &diag.List{}
	for _, m := range mentioned {
		for _, found := range allReferences(m.text) {
			if wrong := fault(found); wrong != "" {
				diags.Errorf(result.places.of(found), "bosh-variable", "%s at /%s %s", found, m.path, wrong)
			}
		}
	}
	return diags.Err()
}

// unresolved says what is wrong with a reference that BOSH is to resolve.
func (w *generation) unresolved(found string, declared []string) string {
	name := strings.TrimSpace(strings.TrimPrefix(strings.Trim(found, "()"), "!"))
	whole, slash := name, strings.LastIndexByte(name, '/')
	if dot := strings.IndexByte(name[slash+1:], '.'); dot >= 0 {
		whole = name[:slash+1+dot]
	}
	if slices.Contains(declared, whole) {
		return ""
	}
	if strings.HasPrefix(whole, "/") {
		if w.allowed(whole) {
			return ""
		}
		return "is an absolute reference; " + w.mustAllow("it", whole)
	}
	for _, secret := range w.bosh.Secrets {
		if secret.Input == whole {
			return fmt.Sprintf("is the value of secret %q; write ((%s))", secret.Name, secret.Name)
		}
	}
	known := slices.Concat(value.Keys(w.variables.values), declared)
	return fmt.Sprintf("is neither an input, a secret nor declared under variables%s; known: %s", diag.Suggest(whole, known), diag.Names(known))
}

// checkResult validates the finished manifest: its structure, and that the broker's own struct can read it, without which
// every later update would fail.
func (w *generation) checkResult(manifest map[string]any, text string) error {
	if err := w.CheckManifest(manifest); err != nil {
		return fmt.Errorf("checking the manifest of service %q: %w", w.Service.Name, err)
	}
	if err := checkNames(manifest); err != nil {
		return fmt.Errorf("checking the manifest of service %q: %w", w.Service.Name, err)
	}
	var decoded bosh.BoshManifest
	if err := yamlv2.Unmarshal([]byte(text), &decoded); err != nil {
		return fmt.Errorf("checking the manifest of service %q: the broker could not read it, which would break every update: %w",
			w.Service.Name, err)
	}
	return nil
}

// checkReleases holds the definition's rules about versions. The user reads what is not met.
func (w *generation) checkReleases() error {
	var failed []error
	for _, constraint := range w.bosh.Requires.Releases {
		version, ok := "", false
		for _, release := range w.Deployment.Releases {
			if release.Name == constraint.Name {
				version, ok = release.Version, true
			}
		}
		failed = append(failed, meets("release", constraint, version, ok))
	}
	for _, constraint := range w.bosh.Requires.Jobs {
		release, err := w.releaseOf(constraint.Name)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		version := w.releaseVersions()[release]
		failed = append(failed, meets("the release of job", constraint, version, true))
	}
	for _, constraint := range w.bosh.Requires.Stemcells {
		version, ok := "", false
		for _, stemcell := range w.Deployment.Stemcells {
			if stemcell.OS == constraint.Name {
				version, ok = stemcell.Version, true
			}
		}
		failed = append(failed, meets("stemcell", constraint, version, ok))
	}
	failed = append(failed, w.checkDowngrades(), w.checkJobDowngrades())
	return errors.Join(failed...)
}

func meets(what string, constraint brokerpak.Constraint, version string, present bool) error {
	if !present {
		return fault.Operatorf("the service requires %s %q %s; the deployment has none of that name", what, constraint.Name, constraint.Constraint)
	}
	conditions, err := brokerpak.ParseConstraint(constraint.Constraint)
	if err != nil {
		return err
	}
	ok, err := conditions.Match(version)
	if err != nil {
		return fault.Operatorf("%s %q: %s", what, constraint.Name, err)
	}
	if !ok {
		return fault.Operatorf("the service requires %s %q %s; the deployment has version %s", what, constraint.Name, constraint.Constraint, version)
	}
	return nil
}

func (w *generation) checkDowngrades() error {
	if len(w.bosh.Requires.NoDowngrade) == 0 {
		return nil
	}
	root, err := w.old.root()
	if err != nil {
		return err
	}
	old := instance.DeployedReleases(root)
	var failed []error
	for _, release := range w.Deployment.Releases {
		before, ok := old[release.Name]
		if !ok || !slices.Contains(w.bosh.Requires.NoDowngrade, release.Name) {
			continue
		}
		failed = append(failed, notLower(release, before))
	}
	return errors.Join(failed...)
}

// notLower refuses a release whose version is lower than the deployed one.
func notLower(release serviceadapter.ServiceRelease, before string) error {
	if strings.HasSuffix(before, "latest") {
		return nil
	}
	comparison, err := brokerpak.CompareVersions(release.Version, before)
	if err != nil {
		return fault.Operatorf("release %q: %s", release.Name, err)
	}
	if comparison < 0 {
		return fault.Operatorf("release %q: version %s is lower than the deployed version %s", release.Name, release.Version, before)
	}
	return nil
}

// checkJobDowngrades holds the rule for releases that are known by a job of theirs, whatever the operator calls them. Where the
// deployment has no release of that name, nobody can tell which version is lower.
func (w *generation) checkJobDowngrades() error {
	if len(w.bosh.Requires.NoDowngradeJobs) == 0 || len(w.PreviousManifest) == 0 {
		return nil
	}
	root, err := w.old.root()
	if err != nil {
		return err
	}
	old := instance.DeployedReleases(root)
	var failed []error
	for _, job := range w.bosh.Requires.NoDowngradeJobs {
		name, err := w.releaseOf(job)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		before, ok := old[name]
		if !ok {
			failed = append(failed, fault.Operatorf("release %q, which provides the job %q, is not in the previous manifest", name, job))
			continue
		}
		failed = append(failed, notLower(serviceadapter.ServiceRelease{Name: name, Version: w.releaseVersions()[name]}, before))
	}
	return errors.Join(failed...)
}

// checkScaleIn refuses fewer instances than the previous plan had.
func (w *generation) checkScaleIn() error {
	for _, name := range w.bosh.Requires.NoScaleIn {
		before, now := instance.FindGroup(w.PreviousPlan, name), instance.FindGroup(&w.BrokerPlan, name)
		if before == nil || now != nil && now.Instances >= before.Instances {
			continue
		}
		have := 0
		if now != nil {
			have = now.Instances
		}
		return &fault.UserError{
			Message: "cannot migrate to a smaller plan",
			Err:     fmt.Errorf("instance group %q would shrink from %d to %d instances", name, before.Instances, have),
		}
	}
	return nil
}
