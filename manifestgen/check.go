package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	yamlv2 "gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// checkReferences refuses every ((reference)) that nothing will resolve, or that would resolve to another's credential.
func (w *generation) checkReferences(result *rendered) error {
	var failed []error
	value.Walk(result.tree, func(path string, leaf any) bool {
		text, ok := leaf.(string)
		if !ok || !strings.Contains(text, "((") {
			return true
		}
		for _, found := range anyReference.FindAllString(text, -1) {
			if !w.allowed(found, result.declared) {
				failed = append(failed, w.unresolved(found, path, result.declared))
			}
		}
		return true
	})
	return errors.Join(failed...)
}

func (w *generation) allowed(found string, declared []string) bool {
	if slices.Contains(w.secrets.references, found) {
		return true
	}
	name := strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(found, "(("), "))"), "!")
	slash := strings.LastIndexByte(name, '/')
	if dot := strings.IndexByte(name[slash+1:], '.'); dot >= 0 {
		name = name[:slash+1+dot]
	}
	if strings.HasPrefix(name, "/") {
		return slices.Contains(w.AllowedReferences, name)
	}
	return slices.Contains(declared, name)
}

func (w *generation) unresolved(found, path string, declared []string) error {
	name := strings.Trim(found, "()")
	if strings.HasPrefix(name, "/") {
		return fmt.Errorf("%s at /%s is an absolute reference; the operator must allow it with allowed_references", found, path)
	}
	known := slices.Concat(w.Service.Provision.InputNames(), declared, value.Keys(w.secrets.variables))
	return fmt.Errorf("%s at /%s is neither an input, a secret nor declared under variables%s; known: %s",
		found, path, diag.Suggest(strings.TrimSpace(name), known), diag.Names(known))
}

// checkResult validates the finished manifest: its structure, and that the broker's own struct can read it, without which
// every later update would fail.
func (w *generation) checkResult(manifest map[string]any, text string) error {
	if err := w.CheckManifest(manifest); err != nil {
		return fmt.Errorf("checking the manifest of service %q: %w", w.Service.Name, err)
	}
	var decoded bosh.BoshManifest
	if err := yamlv2.Unmarshal([]byte(text), &decoded); err != nil {
		return fmt.Errorf("checking the manifest of service %q: the broker could not read it, which would break every update: %w",
			w.Service.Name, err)
	}
	return nil
}

// checkReleases holds the definition's rules about versions.
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
	for _, constraint := range w.bosh.Requires.Stemcells {
		version, ok := "", false
		for _, stemcell := range w.Deployment.Stemcells {
			if stemcell.OS == constraint.Name {
				version, ok = stemcell.Version, true
			}
		}
		failed = append(failed, meets("stemcell", constraint, version, ok))
	}
	failed = append(failed, w.checkDowngrades())
	return errors.Join(failed...)
}

func meets(what string, constraint brokerpak.Constraint, version string, present bool) error {
	if !present {
		return fmt.Errorf("the service requires %s %q %s; the deployment has none of that name", what, constraint.Name, constraint.Constraint)
	}
	conditions, err := brokerpak.ParseConstraint(constraint.Constraint)
	if err != nil {
		return err
	}
	ok, err := conditions.Match(version)
	if err != nil {
		return fmt.Errorf("%s %q: %w", what, constraint.Name, err)
	}
	if !ok {
		return fmt.Errorf("the service requires %s %q %s; the deployment has version %s", what, constraint.Name, constraint.Constraint, version)
	}
	return nil
}

func (w *generation) checkDowngrades() error {
	if len(w.bosh.Requires.NoDowngrade) == 0 {
		return nil
	}
	old, err := w.old.releaseVersions()
	if err != nil {
		return err
	}
	var failed []error
	for _, release := range w.Deployment.Releases {
		before, ok := old[release.Name]
		if !ok || !slices.Contains(w.bosh.Requires.NoDowngrade, release.Name) {
			continue
		}
		if strings.HasSuffix(before, "latest") {
			continue
		}
		comparison, err := brokerpak.CompareVersions(release.Version, before)
		if err != nil {
			failed = append(failed, fmt.Errorf("release %q: %w", release.Name, err))
		} else if comparison < 0 {
			failed = append(failed, fmt.Errorf("release %q: version %s is lower than the deployed version %s", release.Name, release.Version, before))
		}
	}
	return errors.Join(failed...)
}

// checkScaleIn refuses fewer instances than the previous plan had.
func (w *generation) checkScaleIn() error {
	for _, name := range w.bosh.Requires.NoScaleIn {
		before, now := findGroup(w.PreviousPlan, name), findGroup(&w.BrokerPlan, name)
		if before == nil || now != nil && now.Instances >= before.Instances {
			continue
		}
		have := 0
		if now != nil {
			have = now.Instances
		}
		return &fault.UserError{
			Message: "cannot change to a plan with fewer instances",
			Err:     fmt.Errorf("instance group %q would shrink from %d to %d instances", name, before.Instances, have),
		}
	}
	return nil
}
