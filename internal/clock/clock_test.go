package clock

import (
	"sync"
	"testing"
	"time"
)

// TestManualCallsWithoutLock has a timer's function take a lock whose holder asks for the time, as the loop of resp does.
func TestManualCallsWithoutLock(t *testing.T) {
	m := NewManual(time.Unix(1, 0))
	var mu sync.Mutex
	asked := make(chan struct{})
	for _, arm := range []func(call func()){
		func(call func()) { m.AfterFunc(time.Second, call); m.Advance(time.Second) },
		func(call func()) { m.AfterFunc(0, call) },
	} {
		called := false
		arm(func() {
			mu.Lock()
			go func() {
				defer mu.Unlock()
				m.Now()
				asked <- struct{}{}
			}()
			<-asked
			called = true
		})
		if !called {
			t.Error("not called")
		}
	}
}
