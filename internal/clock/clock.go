// Package clock is the time as the server sees it: the system's, or in tests one that is moved by hand.
//
// It starts no goroutines. Clocks are safe for concurrent use.
package clock

import (
	"slices"
	"sync"
	"time"
)

// Clock tells the time and makes timers.
type Clock interface {
	Now() time.Time
	// Since is the time that has passed since Now returned t. It costs the system's clock half of what Now does.
	Since(t time.Time) time.Duration
	// NowMs is Now in unix milliseconds, the unit of deadlines.
	NowMs() int64
	NewTimer(d time.Duration) Timer
	// AfterFunc calls fn, which must not wait, when the time has passed, unless the timer is stopped before. Its C is nil.
	AfterFunc(d time.Duration, fn func()) Timer
}

// Timer is a time.Timer of a Clock.
type Timer interface {
	C() <-chan time.Time
	Reset(d time.Duration)
	// ResetAt has the timer fire at the time, or now when that has passed.
	ResetAt(at time.Time)
	Stop()
}

// System returns the operating system's clock.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now() }

func (system) Since(t time.Time) time.Duration { return time.Since(t) }

func (system) NowMs() int64 { return time.Now().UnixMilli() }

func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

func (system) AfterFunc(d time.Duration, fn func()) Timer { return systemTimer{time.AfterFunc(d, fn)} }

type systemTimer struct{ t *time.Timer }

func (t systemTimer) C() <-chan time.Time   { return t.t.C }
func (t systemTimer) Reset(d time.Duration) { t.t.Reset(d) }
func (t systemTimer) ResetAt(at time.Time)  { t.t.Reset(time.Until(at)) }
func (t systemTimer) Stop()                 { t.t.Stop() }

// Manual is a clock that stands still until Advance moves it.
type Manual struct {
	mu     sync.Mutex
	now    time.Time
	timers []*manualTimer // armed
}

// NewManual returns a manual clock that shows start.
func NewManual(start time.Time) *Manual { return &Manual{now: start} }

// Now returns the time that the clock shows.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Since returns the time from t to what the clock shows.
func (m *Manual) Since(t time.Time) time.Duration { return m.Now().Sub(t) }

// NowMs returns the time that the clock shows in unix milliseconds.
func (m *Manual) NowMs() int64 { return m.Now().UnixMilli() }

// NewTimer returns a timer that fires when the clock has been advanced by d.
func (m *Manual) NewTimer(d time.Duration) Timer {
	t := &manualTimer{clock: m, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

// AfterFunc returns a timer that calls fn, on the goroutine that advances the clock by d.
func (m *Manual) AfterFunc(d time.Duration, fn func()) Timer {
	t := &manualTimer{clock: m, call: fn}
	t.Reset(d)
	return t
}

// Advance moves the clock and fires the timers that are due.
func (m *Manual) Advance(d time.Duration) {
	var calls []func()
	m.mu.Lock()
	m.now = m.now.Add(d)
	m.timers = slices.DeleteFunc(m.timers, func(t *manualTimer) bool {
		if t.at.After(m.now) {
			return false
		}
		calls = append(calls, t.fire())
		return true
	})
	m.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// Awaited tells whether a timer is armed for the time.
func (m *Manual) Awaited(at time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.timers, func(t *manualTimer) bool { return t.at.Equal(at) })
}

type manualTimer struct {
	clock *Manual
	at    time.Time
	c     chan time.Time
	call  func() // instead of c
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

// fire returns what is to be called without the clock's lock: it may take a lock whose holder asks for the time.
func (t *manualTimer) fire() (call func()) {
	if t.call != nil {
		return t.call
	}
	select {
	case t.c <- t.clock.now:
	default:
	}
	return func() {}
}

func (t *manualTimer) disarm() {
	t.clock.timers = slices.DeleteFunc(t.clock.timers, func(o *manualTimer) bool { return o == t })
	select {
	case <-t.c:
	default:
	}
}

func (t *manualTimer) Reset(d time.Duration) {
	t.arm(func(now time.Time) time.Time { return now.Add(d) })
}

func (t *manualTimer) ResetAt(at time.Time) {
	t.arm(func(time.Time) time.Time { return at })
}

func (t *manualTimer) arm(at func(now time.Time) time.Time) {
	m := t.clock
	call := func() {}
	m.mu.Lock()
	t.disarm()
	if t.at = at(m.now); t.at.After(m.now) {
		m.timers = append(m.timers, t)
	} else {
		call = t.fire()
	}
	m.mu.Unlock()
	call()
}

func (t *manualTimer) Stop() {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.disarm()
}
