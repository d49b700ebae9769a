package commands

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// durations is a histogram of how long a command took. Adding to it is one atomic addition, so it serves as the command's
// counter as well. The buckets are exponential with sixteen steps to each power of two: the first sixteen are one
// nanosecond wide, and none is wider than a sixteenth of what it holds. What is longer than a minute falls into the last one. It
// takes 4 KB, which a command gets with its first call.
type durations struct {
	buckets atomic.Pointer[durationBuckets]
}

const (
	stepBits      = 4 // log2 of the steps
	durationSteps = 1 << stepBits
	durationBits  = 36 // longest duration that has a bucket of its own
)

type durationBuckets [(durationBits - stepBits + 1) * durationSteps]atomic.Int64

// add counts one duration.
func (d *durations) add(took time.Duration) {
	b := d.buckets.Load()
	if b == nil {
		d.buckets.CompareAndSwap(nil, new(durationBuckets))
		b = d.buckets.Load()
	}
	b[bucketOf(took)].Add(1)
}

// bucketOf is the bucket that the duration falls into.
func bucketOf(took time.Duration) int {
	ns := min(uint64(max(took, 0)), 1<<durationBits-1)
	if ns < durationSteps {
		return int(ns)
	}
	shift := bits.Len64(ns) - stepBits - 1
	return shift*durationSteps + int(ns>>shift)
}

// bucketEnd is the longest duration that falls into the bucket, in nanoseconds.
func bucketEnd(i int) int64 {
	if i < durationSteps {
		return int64(i)
	}
	shift := i/durationSteps - 1
	return int64(i-shift*durationSteps+1)<<shift - 1
}

// reset forgets everything. What is added at the same moment may be lost.
func (d *durations) reset() {
	b := d.buckets.Load()
	if b == nil {
		return
	}
	for i := range b {
		b[i].Store(0)
	}
}

// count is how many durations were added.
func (d *durations) count() (n int64) {
	if b := d.buckets.Load(); b != nil {
		for i := range b {
			n += b[i].Load()
		}
	}
	return n
}

// percentile is the duration in nanoseconds that p of a hundred did not exceed, 0 when there are none.
func (d *durations) percentile(p float64) int64 {
	b := d.buckets.Load()
	if b == nil {
		return 0
	}
	rank := max(1, int64(math.Ceil(p/100*float64(d.count()))))
	var seen, end int64
	for i := range b {
		n := b[i].Load()
		if n == 0 {
			continue
		}
		seen, end = seen+n, bucketEnd(i)
		if seen >= rank {
			break
		}
	}
	return end
}

// cumulative is a step of a cumulative distribution: how many durations took no longer than micros.
type cumulative struct{ micros, count int64 }

// distribution is the cumulative distribution in steps of powers of two of 1,024 ns, as LATENCY HISTOGRAM shows it: a step
// that adds nothing is left out. Redis names a step by the greatest value that its histogram can't tell from the power
// of two, so that they are 16, 33, 66.
func (d *durations) distribution() (steps []cumulative) {
	b := d.buckets.Load()
	if b == nil {
		return nil
	}
	var count int64
	limit := int64(1024)
	for i := 0; i < len(b); limit *= 2 {
		before := count
		for ; i < len(b) && bucketEnd(i) < limit; i++ {
			count += b[i].Load()
		}
		if count > before {
			steps = append(steps, cumulative{(limit + limit/128 - 1) / 1000, count})
		}
	}
	return steps
}
