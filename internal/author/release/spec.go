package release

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// monitName is the name of the file that describes the processes of a job, which is a template as well.
const monitName = "monit"

// fieldError returns an error with the message text about a field of a file: "file:LINE: field: text", where LINE is
// that of the node. If field is "", the error concerns the whole document and has no field. node must not be nil.
func fieldError(file string, node *yaml.Node, field, text string) error {
	if field != "" {
		text = field + ": " + text
	}
	return fmt.Errorf("%s:%d: %s", file, node.Line, text)
}

// parseYAML returns the root of the first document of a YAML text, which is a mapping, with aliases and merge keys
// resolved. Of repeated keys, the first counts; keys that are not scalars are left out. It returns nil and an error if
// the text is empty, is not valid YAML or is not a mapping, or if the tree has more than 200 levels or 200,000 nodes
// after resolving. file is the name of the text in errors.
func parseYAML(file, text string) (*yaml.Node, error) {
	root, _, err := yamltree.Read(text)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%s: the file is empty", file)
	case err != nil:
		return nil, fmt.Errorf("%s: %s", file, yamltree.SyntaxError(err))
	}
	flat, faults := yamltree.Flatten(root)
	for _, fault := range faults {
		if fault.Rule == yamltree.Unbounded {
			return nil, fieldError(file, fault.Node, "", fault.Message)
		}
	}
	if flat.Kind != yaml.MappingNode {
		return nil, fieldError(file, flat, "", "it must be a mapping, not "+yamltree.Kind(flat))
	}
	return flat, nil
}

// requiredText returns the text of a key of a mapping node, as optionalText does. It returns "" and an error if the
// node, which must not be nil, is not a mapping, or if the value is missing, null, empty or not a scalar. file is the
// name of the file in errors, and parent the path of the mapping in it, such as "provides[0]", or "" for the
// document.
func requiredText(file string, node *yaml.Node, parent, key string) (string, error) {
	if node.Kind != yaml.MappingNode {
		return "", fieldError(file, node, parent, "it must be a mapping, not "+yamltree.Kind(node))
	}
	text, err := optionalText(file, node, parent, key)
	if err == nil && text == "" {
		err = fieldError(file, node, join(parent, key), "it must be set")
	}
	return text, err
}

// optionalText returns the text of a key of a mapping node, or "" if the key is missing or null or if the node is not a
// mapping. A number or boolean is returned as it is written. It returns an error if the value is not a scalar. file is
// the name of the file in errors, and parent the path of the mapping in it, such as "provides[0]", or "" for the
// document.
func optionalText(file string, node *yaml.Node, parent, key string) (string, error) {
	_, item := yamltree.Get(node, key)
	switch {
	case item == nil || yamltree.IsNull(item):
		return "", nil
	case item.Kind != yaml.ScalarNode:
		return "", fieldError(file, item, join(parent, key), "it must be a text, not "+yamltree.Kind(item))
	default:
		return item.Value, nil
	}
}

// join returns the dotted path of a key below the path parent: "parent.key", or the key alone if parent is "".
func join(parent, key string) string { return strings.TrimPrefix(parent+"."+key, ".") }

// parseSpec parses the text of a job's spec, which is the file spec in a source directory and job.MF in a tarball. It
// also returns the paths of the job's templates, relative to the directory templates; nil means none. The paths are
// shortened by path.Clean, but may be absolute or begin with "..". The Templates of the job are empty, because
// parseSpec does not read their texts. file is the name of the spec in errors.
//
// parseSpec returns an empty Job, nil and an error if the text is not a YAML mapping, if a Director would reject the
// spec, for example because it has no name, or if a value cannot be decoded. In the last two cases the error names the
// field.
func parseSpec(file, text string) (Job, []string, error) {
	job := Job{Properties: map[string]Property{}, Templates: map[string]string{}}
	root, err := parseYAML(file, text)
	if err != nil {
		return Job{}, nil, err
	}
	if job.Name, err = requiredText(file, root, "", "name"); err != nil {
		return Job{}, nil, err
	}
	templates, err := section(file, root, "templates")
	if err != nil {
		return Job{}, nil, err
	}
	properties, err := section(file, root, "properties")
	if err != nil {
		return Job{}, nil, err
	}
	for key, definition := range yamltree.Pairs(properties) {
		if job.Properties[key.Value], err = parseProperty(file, "properties."+key.Value, definition); err != nil {
			return Job{}, nil, err
		}
	}
	if job.Provides, err = parseLinks(file, root, "provides"); err != nil {
		return Job{}, nil, err
	}
	if job.Consumes, err = parseLinks(file, root, "consumes"); err != nil {
		return Job{}, nil, err
	}
	var paths []string
	for source := range yamltree.Pairs(templates) {
		paths = append(paths, path.Clean(source.Value))
	}
	return job, paths, nil
}

// section returns the mapping at a top-level key of a document, or nil if the key is missing or null. root is the root
// mapping of the document, as parseYAML returns it, not the document node. section returns nil and an error if the
// value is not a mapping. file is the name of the document in errors.
func section(file string, root *yaml.Node, key string) (*yaml.Node, error) {
	_, node := yamltree.Get(root, key)
	switch {
	case node == nil || yamltree.IsNull(node):
		return nil, nil
	case node.Kind != yaml.MappingNode:
		return nil, fieldError(file, node, key, "it must be a mapping, not "+yamltree.Kind(node))
	default:
		return node, nil
	}
}

// parseProperty parses the definition of a property in a spec. HasDefault is false if the definition is null or a
// scalar, or if its default is missing or null. A description or type that is not a scalar is ignored. file is the name
// of the spec in errors, and field the path of the definition in it, such as "properties.tls.enabled".
//
// parseProperty returns an error for a list, which the Director cannot read, and if the default or the example cannot
// be decoded. The Property may then be incomplete. parseProperty modifies nodes of the definition; see decode.
func parseProperty(file, field string, definition *yaml.Node) (Property, error) {
	var property Property
	if definition.Kind == yaml.SequenceNode {
		return property, fieldError(file, definition, field, "it must be a mapping, not "+yamltree.Kind(definition))
	}
	texts := map[string]*string{"description": &property.Description, "type": &property.Type}
	for key, target := range texts {
		_, node := yamltree.Get(definition, key)
		if node != nil && node.Kind == yaml.ScalarNode && !yamltree.IsNull(node) {
			*target = node.Value
		}
	}
	var err error
	if property.Default, err = decode(file, join(field, "default"), definition, "default"); err != nil {
		return property, err
	}
	property.HasDefault = property.Default != nil
	property.Example, err = decode(file, join(field, "example"), definition, "example")
	return property, err
}

// decode returns the value of a key of the mapping definition, in the types of package value, as Ruby reads YAML: the
// plain scalars yes, no, on and off are booleans, and dates are the texts that were written. It returns nil without an
// error if definition is not a mapping, or if the key is missing or null, and an error if the value cannot be decoded.
// It changes the tags and values of the nodes of the value; see asRuby. file and field are the name of the file and the
// path of the value in errors.
func decode(file, field string, definition *yaml.Node, key string) (any, error) {
	_, node := yamltree.Get(definition, key)
	if node == nil {
		return nil, nil
	}
	asRuby(node)
	var decoded any
	if err := node.Decode(&decoded); err != nil {
		return nil, fieldError(file, node, field, "it cannot be read: "+yamltree.SyntaxError(err))
	}
	return value.Normalise(decoded), nil
}

// asRuby modifies the scalars at and below a node that Ruby's YAML library reads as another type than package yaml: a
// date becomes a string, and a plain scalar yes, no, on or off without a tag, in any letter case such as "Yes" or "NO",
// becomes a boolean with the value true or false. Keys of mappings are modified as well. The node must not be nil, and
// its aliases must be resolved, because asRuby does not follow them.
func asRuby(node *yaml.Node) {
	for _, child := range node.Content {
		asRuby(child)
	}
	if node.Kind != yaml.ScalarNode {
		return
	}
	plain := node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	text := strings.ToLower(node.Value)
	switch {
	case node.ShortTag() == "!!timestamp":
		node.Tag = "!!str"
	case !plain || node.ShortTag() != "!!str" || node.Style&yaml.TaggedStyle != 0:
	case text == "yes" || text == "on":
		node.Tag, node.Value = "!!bool", strconv.FormatBool(true)
	case text == "no" || text == "off":
		node.Tag, node.Value = "!!bool", strconv.FormatBool(false)
	}
}

// parseLinks parses the links at a key of the spec, "provides" or "consumes", in their order. It returns nil without an
// error if the key is missing or null or the list is empty. Like the Director, it returns an error if they are not a
// list of mappings with a name and a type, if a name is repeated, or if a provided link has the key optional.
// Properties of a provided link that are neither null nor a list of names, and a key optional that cannot be decoded,
// are errors as well. file is the name of the spec in errors, and root its root node.
func parseLinks(file string, root *yaml.Node, key string) ([]Link, error) {
	_, list := yamltree.Get(root, key)
	if list == nil || yamltree.IsNull(list) {
		return nil, nil
	}
	if list.Kind != yaml.SequenceNode {
		return nil, fieldError(file, list, key, "it must be a list, not "+yamltree.Kind(list))
	}
	var links []Link
	for i, entry := range list.Content {
		field := fmt.Sprintf("%s[%d]", key, i)
		link, err := parseLink(file, field, entry, key == "provides")
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(links, func(other Link) bool { return other.Name == link.Name }) {
			return nil, fieldError(file, entry, field, fmt.Sprintf("the name %q is used twice", link.Name))
		}
		links = append(links, link)
	}
	return links, nil
}

// parseLink parses one entry of the links in a spec; provided means that the job provides the link, and otherwise it
// consumes it. A consumed link is optional if the key optional has any other value than false and null, and its
// properties are ignored. file is the name of the spec in errors, and field the path of the entry in it, such as
// "provides[0]".
//
// parseLink returns an error if the entry is not a mapping with a name and a type, if optional cannot be decoded or a
// provided link has this key, or if the properties of a provided link are neither null nor a list of names. The link
// must not be used then.
func parseLink(file, field string, entry *yaml.Node, provided bool) (link Link, err error) {
	if link.Name, err = requiredText(file, entry, field, "name"); err != nil {
		return link, err
	}
	if link.Type, err = requiredText(file, entry, field, "type"); err != nil {
		return link, err
	}
	optional, err := decode(file, join(field, "optional"), entry, "optional")
	if err != nil {
		return link, err
	}
	if _, node := yamltree.Get(entry, "optional"); node != nil && provided {
		return link, fieldError(file, node, join(field, "optional"), "a provided link cannot be optional")
	}
	link.Optional = optional != nil && optional != false
	_, properties := yamltree.Get(entry, "properties")
	switch {
	case !provided || properties == nil || yamltree.IsNull(properties):
		return link, nil
	case properties.Kind != yaml.SequenceNode:
		return link, fieldError(file, properties, join(field, "properties"),
			"it must be a list, not "+yamltree.Kind(properties))
	}
	for _, name := range properties.Content {
		if name.Kind != yaml.ScalarNode {
			return link, fieldError(file, name, join(field, "properties"), "an entry must be the name of a property")
		}
		link.Properties = append(link.Properties, name.Value)
	}
	return link, nil
}
