package opentofu

import (
	"syscall"
	"time"
)

// systemUptime returns the time since this machine started, in whole seconds. It returns 0 and false if the kernel does
// not report it.
func systemUptime() (uptime time.Duration, ok bool) {
	var system syscall.Sysinfo_t
	if err := syscall.Sysinfo(&system); err != nil {
		return 0, false
	}
	return time.Duration(system.Uptime) * time.Second, true
}
