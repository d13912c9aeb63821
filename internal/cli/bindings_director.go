package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/director"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/yamltree"
)

// addSecretsFlag adds the flag --secrets, which supplies the credentials of running instances in addition to
// --director.
func (r *removal) addSecretsFlag(command *cobra.Command) {
	command.Flags().StringVar(&r.secretsFile, "secrets", "",
		"with --director, a YAML or JSON file with the values of the references in deployed manifests")
}

// runningInstances returns the source of the data about running instances that --director and --secrets describe. It
// returns nil if --director is not set, and with --gone, which selects instances without a deployment. It returns the
// errors of ReadDirectorConfig and ReadSecrets, and an error if the address or the credentials in the file of
// --director are missing or malformed. The Director is not asked yet.
func (r *removal) runningInstances(ctx context.Context) (*states.Running, error) {
	if r.platform.directorFile == "" || r.platform.gone {
		return nil, nil //nolint:nilnil // nil means that the recorded inputs are used
	}
	config, err := ReadDirectorConfig(r.platform.directorFile)
	if err != nil {
		return nil, err
	}
	client, err := director.New(config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.platform.directorFile, err)
	}
	running := &states.Running{Deployment: deploymentReader(client)}
	if r.secretsFile != "" {
		running.Credentials, err = ReadSecrets(ctx, r.secretsFile)
	}
	return running, err
}

// deploymentReader returns a function that reads the manifest, the VMs and the DNS addresses of the deployment with a
// name from the Director. It asks for each deployment only once, because many bindings can belong to one instance, and
// again after an error. The function returns the error of the Director, for example if the deployment does not exist.
// The function is not safe for concurrent use.
func deploymentReader(client *director.Client) func(context.Context, string) (*states.Deployment, error) {
	deployments := map[string]*states.Deployment{}
	return func(ctx context.Context, name string) (*states.Deployment, error) {
		if deployments[name] != nil {
			return deployments[name], nil
		}
		manifest, err := client.Manifest(ctx, name)
		if err != nil {
			return nil, err
		}
		vms, err := client.VMs(ctx, name)
		if err != nil {
			return nil, err
		}
		dns, err := client.DNSAddresses(ctx, name)
		if err != nil {
			return nil, err
		}
		deployments[name] = &states.Deployment{Manifest: manifest, VMs: vms, DNS: dns}
		return deployments[name], nil
	}
}

// ReadSecrets reads the values of references from a YAML or JSON file: a mapping of the names of references to texts,
// or to mappings of keys to texts. A name may include the parentheses of the reference, which the result does not
// contain. Scalars become the text that is written in the file. ReadSecrets returns an error if the file cannot be
// read, is accessible to users other than its owner and group, is not one YAML document, or has another form. Errors
// contain no values.
func ReadSecrets(ctx context.Context, path string) (map[string]any, error) {
	if err := checkSecretFile("the file of --secrets", path); err != nil {
		return nil, err
	}
	text, err := ctxio.ReadFile(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("reading the file of --secrets: %w", err)
	}
	document, second, err := yamltree.Read(string(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %s", path, yamltree.SyntaxError(err))
	case second != nil:
		return nil, fmt.Errorf("%s: only one YAML document is allowed", path)
	}
	flat, faults := yamltree.Flatten(document)
	if len(faults) > 0 {
		return nil, fmt.Errorf("%s:%d: %s", path, faults[0].Node.Line, faults[0].Message)
	}
	credentials, err := secretTexts(flat)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	mapping, isMapping := credentials.(map[string]any)
	if !isMapping {
		return nil, fmt.Errorf("%s: it must be a mapping of names of references to values", path)
	}
	secrets := map[string]any{}
	for name, item := range mapping {
		secrets[strings.TrimSuffix(strings.TrimPrefix(name, "(("), "))")] = item
	}
	return secrets, nil
}

// secretTexts returns the text of a scalar as it is written, or a map[string]any of such texts and maps for a mapping.
// It returns an error, which begins with the line number and a colon, if a value is null or a list.
func secretTexts(node *yaml.Node) (any, error) {
	if node.Kind == yaml.ScalarNode && !yamltree.IsNull(node) {
		return node.Value, nil
	}
	if node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%d: a value must be a text or a mapping of keys to texts", node.Line)
	}
	texts := map[string]any{}
	for key, item := range yamltree.Pairs(node) {
		text, err := secretTexts(item)
		if err != nil {
			return nil, err
		}
		texts[key.Value] = text
	}
	return texts, nil
}

// checkSecretFile returns an error if a file does not exist, cannot be inspected, or if its mode lets users other than
// its owner and group access it. what describes the file in the error for a missing one.
func checkSecretFile(what, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("reading %s: %w", what, err)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return fmt.Errorf("%s contains a secret and is accessible to all users (mode %04o): set its mode to 0600",
			path, mode)
	}
	return nil
}
