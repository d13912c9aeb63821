// Command minimal is the smallest adapter that the SDK allows. Its manifest contains only values from the broker.
package main

import (
	"errors"
	"log"
	"os"

	"github.com/pivotal-cf/on-demand-services-sdk/bosh"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
)

func main() {
	handler := serviceadapter.CommandLineHandler{ManifestGenerator: generator{}}
	err := handler.Handle(os.Args, os.Stdout, os.Stderr, os.Stdin)
	var failure serviceadapter.CLIHandlerError
	if errors.As(err, &failure) {
		os.Exit(failure.ExitCode)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// generator implements the SDK's interface for manifests.
type generator struct{}

// GenerateManifest returns a manifest with the plan's instance groups.
func (generator) GenerateManifest(p serviceadapter.GenerateManifestParams) (serviceadapter.GenerateManifestOutput,
	error,
) {
	manifest := bosh.BoshManifest{
		Name: p.ServiceDeployment.DeploymentName,
		Releases: []bosh.Release{{
			Name:    p.ServiceDeployment.Releases[0].Name,
			Version: p.ServiceDeployment.Releases[0].Version,
		}},
		Stemcells: []bosh.Stemcell{{
			Alias: "default", OS: p.ServiceDeployment.Stemcells[0].OS,
			Version: p.ServiceDeployment.Stemcells[0].Version,
		}},
	}
	for _, group := range p.Plan.InstanceGroups {
		manifest.InstanceGroups = append(manifest.InstanceGroups, bosh.InstanceGroup{
			Name: group.Name, Instances: group.Instances, VMType: group.VMType, AZs: group.AZs, Stemcell: "default",
			Networks: []bosh.Network{{Name: group.Networks[0]}},
			Jobs: []bosh.Job{{
				Name: group.Name, Release: p.ServiceDeployment.Releases[0].Name,
				Properties: p.Plan.Properties,
			}},
		})
	}
	return serviceadapter.GenerateManifestOutput{Manifest: manifest}, nil
}
