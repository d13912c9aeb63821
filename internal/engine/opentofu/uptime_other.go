//go:build !linux

package opentofu

import "time"

// systemUptime always returns false: this package inspects processes on Linux only; see CheckPlatform.
func systemUptime() (uptime time.Duration, ok bool) { return 0, false }
