//go:build !linux

package peer

import "syscall"

// dieWithParent has no equivalent outside Linux; there a test that panics may leave its servers running.
func dieWithParent() *syscall.SysProcAttr { return nil }
