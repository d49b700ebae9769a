package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"codeq/config"
)

// listen opens the configured listeners, all or none.
func listen(c *config.Config) (_ []net.Listener, err error) {
	var open []net.Listener
	defer func() {
		if err != nil {
			closeAll(open)
		}
	}()
	if c.Addr != "" {
		l, err := net.Listen("tcp", c.Addr)
		if err != nil {
			return nil, fmt.Errorf("%s: cannot listen on addr: %w; stop the program that uses it or choose another address with --addr",
				c.Where("addr"), err)
		}
		open = append(open, l)
	}
	if c.UnixSocket != "" {
		l, err := listenUnix(c.UnixSocket, c.UnixSocketPerm)
		if err != nil {
			return nil, fmt.Errorf("%s: unixsocket %s: %w", c.Where("unixsocket"), c.UnixSocket, err)
		}
		open = append(open, l)
	}
	for _, l := range open {
		if err := setBacklog(l, c.TCPBacklog); err != nil {
			return nil, fmt.Errorf("tcp-backlog of %s: %w", l.Addr(), err)
		}
	}
	return open, nil
}

func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		// They are given up; what else they have to say doesn't matter.
		_ = l.Close()
	}
}

// listenUnix listens on a socket in the file system. A socket that a server left behind when it was killed is replaced; one
// that answers, or a file that is no socket, is not.
func listenUnix(path string, perm fs.FileMode) (net.Listener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w", err)
	}
	if perm != 0 {
		if err := os.Chmod(path, perm); err != nil {
			return nil, errors.Join(fmt.Errorf("set unixsocketperm: %w", err), l.Close())
		}
	}
	return l, nil
}

// staleTimeout bounds asking whether a socket is in use. A server that is too busy to accept still lets the system connect.
const staleTimeout = time.Second

func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file of that name that is no socket; remove it or choose another path")
	}
	conn, err := net.DialTimeout("unix", path, staleTimeout)
	if err == nil {
		return errors.Join(errors.New("another server listens on it; stop it or choose another path"), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// setBacklog listens once more, which on a listening socket only changes its backlog; Go gives every socket the system's
// largest. It is what tcp-backlog says, also for a unix socket, as in Redis.
func setBacklog(l net.Listener, backlog int) error {
	socket, ok := l.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = syscall.Listen(int(fd), backlog) })
	return errors.Join(err, failed)
}
