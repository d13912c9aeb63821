//go:build !linux

package opentofu

import "time"

// systemUptime would return the time since this machine started. On this platform it always returns 0 and false,
// because the package inspects processes on Linux only.
func systemUptime() (uptime time.Duration, ok bool) { return 0, false }
