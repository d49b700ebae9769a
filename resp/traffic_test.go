package resp

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"testing"
)

// TestTraffic counts what passes plain sockets, which the loop serves, and secured ones, which goroutines serve.
func TestTraffic(t *testing.T) {
	secure := httptest.NewUnstartedServer(nil)
	secure.StartTLS()
	defer secure.Close()
	for _, secured := range []bool{false, true} {
		s := newTestServer(t, &testHandler{})
		s.limits.MaxClients.Store(1)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		address := l.Addr().String()
		if secured {
			l = tls.NewListener(l, &tls.Config{Certificates: secure.TLS.Certificates})
		}
		serveListener(t, s, l)
		c := dial(t, address)
		if secured {
			conn := tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true})
			c.Conn = conn
			c.in.Reset(conn)
		}
		c.send("PING\r\n*1\r\n$4\r\nPI") // a command that arrives in two parts counts, too
		c.expect("+PONG\r\n")
		c.send("NG\r\nLARGE 100000\r\n")
		c.expect("+PONG\r\n$100000\r\n")
		if !secured {
			dial(t, address).expect("-ERR max number of clients reached\r\n")
		}
		c.expect(string(make([]byte, 100000)) + "\r\n")
		if err := s.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		in, out := s.Traffic()
		wantIn, wantOut := int64(len("PING\r\n*1\r\n$4\r\nPING\r\nLARGE 100000\r\n")), int64(len("+PONG\r\n+PONG\r\n$100000\r\n\r\n")+100000)
		if in != wantIn || out != wantOut {
			t.Errorf("secured %v: %d bytes in and %d out, want %d and %d", secured, in, out, wantIn, wantOut)
		}
		if n := s.Rejected(); !secured && n != 1 {
			t.Errorf("%d connections rejected, want 1", n)
		}
	}
}
