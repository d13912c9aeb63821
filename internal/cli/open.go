package cli

import (
	"errors"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
)

// openPak opens a pak with the plans that the environment adds to its services (GSB_SERVICE_<NAME>_PLANS).
func openPak(streams Streams, path string) (*brokerpak.Pak, error) {
	pak, err := brokerpak.Open(path)
	if err != nil {
		return nil, err
	}
	if err := adapter.AddPlans(pak, streams.Getenv); err != nil {
		return nil, errors.Join(err, pak.Close())
	}
	return pak, nil
}
