package codeqclient

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// serveLoading answers HELLO, and then one transaction of two commands as a server does that loads its data.
func serveLoading(conn net.Conn) error {
	const loading = "-LOADING Redis is loading the dataset in memory\r\n"
	requests := make([]byte, 1<<10)
	for _, replies := range []string{"-ERR unknown command 'hello'\r\n", "+OK\r\n" + loading + loading + "-EXECABORT Transaction discarded\r\n"} {
		if _, err := conn.Read(requests); err != nil {
			return err
		}
		if _, err := io.WriteString(conn, replies); err != nil {
			return err
		}
	}
	return nil
}

// TestTransactWhileLoading has a server that takes MULTI and refuses what is to be queued, as Redis does while it loads its data. What is refused has not been executed, so it is the kind of error behind which an operation is done again.
func TestTransactWhileLoading(t *testing.T) {
	client, server := net.Pipe()
	rdb := redis.NewClient(&redis.Options{
		DisableIdentity: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return client, nil },
	})
	served := make(chan error, 1)
	go func() { served <- serveLoading(server) }() // ends with the transaction
	err := transact(t.Context(), rdb, func(p redis.Pipeliner) error {
		p.HSet(t.Context(), keyTasks, "id", "{}")
		p.ZRem(t.Context(), keyTTL, "id")
		return nil
	})
	if !redis.IsLoadingError(err) || !LostReply(err) {
		t.Errorf("the error is %v, want the reason why it was refused", err)
	}
	if err := rdb.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
