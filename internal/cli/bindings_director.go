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

// addSecretsFlag adds the flag --secrets FILE to a command. The file supplies the credentials to which deployed
// manifests refer, in addition to the data that the Director of --director supplies; see ReadSecrets for its form. The
// path is stored in r; its default "" means that there are no credentials.
func (r *removal) addSecretsFlag(command *cobra.Command) {
	command.Flags().StringVar(&r.secretsFile, "secrets", "",
		"with --director, a YAML or JSON file with the values of the references in deployed manifests")
}

// runningInstances returns the source of current data about running instances, from which the inputs of a deletion are
// evaluated again: the Director of --director and the credentials in the file of --secrets, if that is set. It returns
// nil without an error if --director is not set, or if --gone is set, which selects instances without a deployment; the
// recorded inputs are used then. The Director is not asked yet.
//
// runningInstances returns an error if one of the two files cannot be read, is accessible to users other than its owner
// and group, or has an invalid form, if the address or the credentials in the file of --director are missing or
// malformed, or if ctx ends while the file of --secrets is read. The first result must not be used after an error.
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

// deploymentReader returns a function that reads a deployment from the Director: its manifest, its VMs and its DNS
// addresses. For each DNS address that the client's configuration describes, the function creates a link at the
// Director and deletes it again. The second argument of the function is the name of the deployment. The function keeps
// each deployment that it has read and returns it again, because many bindings can belong to one instance; after an
// error it asks again. It returns an error if a request fails, or if the deployment does not exist or has no manifest.
// It is not safe for concurrent use.
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

// ReadSecrets reads the values of references, such as ((password)), from a YAML or JSON file. The file is a mapping of
// the names of references to texts, or to mappings of keys to such values. A name in the file may include the
// parentheses; the names in the result do not. Of a name that occurs with and without them, one of the values is lost.
// Scalars such as numbers become the text that is written in the file. The values of the result are strings and values
// of type map[string]any. An empty mapping results in an empty map.
//
// path is the path of the file, relative to the working directory if it is not absolute. ReadSecrets returns an error
// if the file cannot be read, is accessible to users other than its owner and group, is empty, contains more than one
// YAML document, is not valid YAML or a mapping, contains a null, a list or a repeated key, or if ctx ends. Errors
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

// secretTexts returns the text of a scalar as it is written, as a string, or for a mapping a map[string]any whose
// values are such texts or maps. node must be part of a flat tree, without aliases and merge keys. secretTexts returns
// an error, which begins with the line number and a colon, such as "3: a value must be …", if the node or a value in it
// is null or a list.
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

// checkSecretFile returns an error if the file at path cannot be inspected, for example because it does not exist, or
// if its mode grants any access to users other than its owner and group. The content is not read. what describes the
// file, such as "the file of --secrets", in the first of these errors, and is not used in the second.
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
