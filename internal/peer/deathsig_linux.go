package peer

import "syscall"

// dieWithParent makes the kernel end a server when the test process is gone, so that a test that panics or times out
// leaves nothing running.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
