//go:build !linux

package peer

import "syscall"

// DieWithParent has no equivalent outside Linux; there a test that panics may leave its servers running.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
