//go:build !linux

package resp

import (
	"errors"
	"net"
)

// Without epoll there is no loop: every session has a goroutine.

type poller struct{}

type happening struct{ events events }

func newPoller() (*poller, error) { return nil, errors.ErrUnsupported }

func (p *poller) close() error               { return nil }
func (p *poller) add(*Session) error         { return errors.ErrUnsupported }
func (p *poller) remove(*Session)            {}
func (p *poller) session(happening) *Session { return nil }
func (p *poller) wait(bool) []happening      { return nil }
func (p *poller) interrupt()                 {}

type socket struct{ drained, ending bool }

func newSocket(net.Conn) (*socket, bool) { return nil, false }

func (c *socket) Read([]byte) (int, error)  { return 0, errWouldBlock }
func (c *socket) write([]byte) (int, error) { return 0, errors.ErrUnsupported }
func (c *socket) hangUp()                   {}
func (c *socket) drain()                    {}
func (c *socket) close()                    {}
