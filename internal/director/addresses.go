package director

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// VMs returns the IP addresses of the VMs of a deployment by the name of their instance group, as the broker sends them
// to adapters. deployment is the name of the deployment. The addresses of a group are in the Director's order. A group
// whose VMs have no address has a nil list, and a group without VMs is absent. The result is empty and not nil if
// the deployment has no VMs. VMs returns nil and an error, one sentence without secrets, if the deployment does not
// exist, if the login or the request fails, also because ctx ends, or if the answer is not a list.
func (c *Client) VMs(ctx context.Context, deployment string) (map[string][]string, error) {
	var listed []struct {
		Group string   `json:"job"`
		IPs   []string `json:"ips"`
	}
	what := "the VMs of " + deployment
	if err := c.get(ctx, "/deployments/"+url.PathEscape(deployment)+"/vms", what, &listed); err != nil {
		return nil, err
	}
	if listed == nil {
		return nil, fmt.Errorf("asking the Director %s for %s: the answer is not a list", c.address, what)
	}
	addresses := map[string][]string{}
	for _, vm := range listed {
		addresses[vm.Group] = append(addresses[vm.Group], vm.IPs...)
	}
	return addresses, nil
}

// A BindingDNS describes a DNS address that bindings use, as an entry of binding_with_dns of a plan of the broker does:
// the name of the address, the instance group and the link of the VMs behind it, and optionally their availability
// zones and their health: default, healthy, unhealthy or all. Without zones it covers all of them, and without a health
// the default one.
type BindingDNS struct {
	// Name is the name by which expressions read the address.
	Name string `yaml:"name"`
	// LinkProvider is the name of a link that a job of the InstanceGroup provides.
	LinkProvider  string `yaml:"link_provider"`
	InstanceGroup string `yaml:"instance_group"`
	Properties    struct {
		// AZs are the availability zones of the VMs behind the address; none means all.
		AZs []string `yaml:"azs"`
		// Status is the health of these VMs: default, healthy, unhealthy or all. "" means default.
		Status string `yaml:"status"`
	} `yaml:"properties"`
}

// consumerName is the name of the consumers of the links that DNSAddresses creates.
const consumerName = "service-adapter"

// deletionTimeout limits the deletion of a link, which must also happen after the context has ended.
const deletionTimeout = 30 * time.Second

// DNSAddresses returns the DNS addresses of a deployment that Config.BindingDNS describes, by the Name of the entry, as
// the broker sends them to adapters. deployment is the name of the deployment. An entry whose link the deployment does
// not provide is left out, because the entries may be those of another plan. Of several entries with the same name, the
// first one whose link is provided counts. The result is empty and not nil if no entry remains.
//
// For each address, DNSAddresses creates a link at the Director and deletes it again, as the broker does; the client
// must be allowed to do that. If Config.BindingDNS is empty, it sends no request. Otherwise it returns nil and an
// error, one sentence without secrets, if the deployment does not exist, if the login or a request fails, also
// because ctx ends, or if the Director does not know the address of a link. A failed deletion of a link is an error
// as well, after which the link may remain at the Director. A link may also remain if the request that creates it
// fails, for example because ctx ends.
func (c *Client) DNSAddresses(ctx context.Context, deployment string) (map[string]string, error) {
	addresses := map[string]string{}
	if len(c.config.BindingDNS) == 0 {
		return addresses, nil
	}
	var providers []struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Owner struct {
			Info struct {
				InstanceGroup string `json:"instance_group"`
			} `json:"info"`
		} `json:"owner_object"`
	}
	path, what := "/link_providers?deployment="+url.QueryEscape(deployment), "the links of "+deployment
	if err := c.get(ctx, path, what, &providers); err != nil {
		return nil, err
	}
	for _, entry := range c.config.BindingDNS {
		for _, provider := range providers {
			_, exists := addresses[entry.Name]
			isOther := provider.Name != entry.LinkProvider || provider.Owner.Info.InstanceGroup != entry.InstanceGroup
			if exists || isOther {
				continue
			}
			address, err := c.linkAddress(ctx, provider.ID, &entry)
			if err != nil {
				return nil, fmt.Errorf("asking the Director %s for the DNS address %q of %s: %w",
					c.address, entry.Name, deployment, err)
			}
			addresses[entry.Name] = address
		}
	}
	return addresses, nil
}

// linkAddress returns the DNS address of a link. provider is the id of the link's provider, and entry contains the
// availability zones and the health that restrict the address. linkAddress creates a consumer of the link, because the
// Director reports an address only to a consumer, and deletes it again. The deletion may take up to 30 seconds, even
// after ctx has ended.
//
// linkAddress returns an error if the login or a request fails, including the deletion, or if the answer contains no
// address. An error of the deletion is returned only if there is no other one. If the creation or the deletion fails,
// for example because ctx or the time limit ends, the consumer may remain at the Director. The address must not be
// used after an error. An error of a request does not name the Director; an error of the login names the Director or
// its UAA.
func (c *Client) linkAddress(ctx context.Context, provider string, entry *BindingDNS) (address string, err error) {
	authorize, err := c.authorized(ctx)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{
		"link_provider_id": provider,
		"link_consumer":    map[string]any{"owner_object": map[string]any{"name": consumerName, "type": "external"}},
	})
	if err != nil {
		return "", err
	}
	var link struct {
		ID string `json:"id"`
	}
	creation := message{
		method: http.MethodPost, url: c.address + "/links", contentType: "application/json", body: string(body),
	}
	if err := c.send(ctx, creation, authorize, &link); err != nil {
		return "", fmt.Errorf("creating a link: %w", err)
	}
	defer func() {
		deletionCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deletionTimeout)
		defer cancel()
		deletion := message{method: http.MethodDelete, url: c.address + "/links/" + url.PathEscape(link.ID)}
		if deleteErr := c.send(deletionCtx, deletion, authorize, nil); deleteErr != nil && err == nil {
			err = fmt.Errorf("deleting the link %s: %w", link.ID, deleteErr)
		}
	}()
	query := url.Values{"link_id": {link.ID}, "azs[]": entry.Properties.AZs}
	if entry.Properties.Status != "" {
		query.Set("status", entry.Properties.Status)
	}
	var answer struct {
		Address string `json:"address"`
	}
	request := message{method: http.MethodGet, url: c.address + "/link_address?" + query.Encode()}
	if err := c.send(ctx, request, authorize, &answer); err != nil {
		return "", err
	}
	if answer.Address == "" {
		return "", errors.New("the answer does not contain one")
	}
	return answer.Address, nil
}
