package peer

import "syscall"

// DieWithParent makes the kernel end a process when the test process is gone, so that a test that panics or times out
// leaves nothing running. The signal comes when the thread that started the process ends; lock it for as long.
func DieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
