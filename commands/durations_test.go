package commands

import (
	"math"
	"slices"
	"testing"
	"time"
)

// TestDurationBuckets: the buckets follow each other without a gap, and none is wider than a sixteenth of what it holds.
func TestDurationBuckets(t *testing.T) {
	last := len(durationBuckets{}) - 1
	start := int64(0)
	for i := range last + 1 {
		end := bucketEnd(i)
		if got := bucketOf(time.Duration(start)); got != i {
			t.Fatalf("%d ns are in bucket %d, want %d", start, got, i)
		}
		if got := bucketOf(time.Duration(end)); got != i {
			t.Fatalf("%d ns are in bucket %d, want %d", end, got, i)
		}
		if width := end - start + 1; width > 1 && width*durationSteps > start {
			t.Fatalf("bucket %d from %d to %d is too wide", i, start, end)
		}
		start = end + 1
	}
	for _, took := range []time.Duration{time.Duration(start), time.Hour, math.MaxInt64} {
		if got := bucketOf(took); got != last {
			t.Errorf("%v is in bucket %d, want the last, %d", took, got, last)
		}
	}
	if got := bucketOf(-time.Second); got != 0 {
		t.Errorf("a negative duration is in bucket %d", got)
	}
}

func TestDurations(t *testing.T) {
	var d durations
	if d.count() != 0 || d.percentile(50) != 0 || d.distribution() != nil {
		t.Error("an empty histogram has something in it")
	}
	d.reset()
	for range 90 {
		d.add(900 * time.Nanosecond)
	}
	for range 9 {
		d.add(10 * time.Microsecond)
	}
	d.add(20 * time.Millisecond)
	if got := d.count(); got != 100 {
		t.Errorf("count is %d", got)
	}
	for p, want := range map[float64]int64{0: 900, 50: 900, 90: 900, 90.1: 10_000, 99: 10_000, 99.9: 20_000_000, 100: 20_000_000} {
		if got := d.percentile(p); got < want || got > want+want/durationSteps {
			t.Errorf("percentile %v is %d, want about %d", p, got, want)
		}
	}
	if got, want := d.distribution(), []cumulative{{1, 90}, {16, 99}, {33816, 100}}; !slices.Equal(got, want) {
		t.Errorf("the distribution is %v, want %v", got, want)
	}
	d.reset()
	if d.count() != 0 || d.distribution() != nil {
		t.Error("after a reset the histogram is not empty")
	}
}

// TestDistributionSteps wants Redis' names for the steps, as LATENCY HISTOGRAM there shows them.
func TestDistributionSteps(t *testing.T) {
	var d durations
	var got []int64
	for ns := time.Duration(512); ns < time.Duration(1<<22); ns *= 2 {
		d.add(ns)
	}
	for _, step := range d.distribution() {
		got = append(got, step.micros)
	}
	if want := []int64{1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227}; !slices.Equal(got, want) {
		t.Errorf("the steps are %v, want %v", got, want)
	}
}

// BenchmarkDurationsAdd is what the histogram costs a command.
func BenchmarkDurationsAdd(b *testing.B) {
	var d durations
	took := time.Duration(1234)
	for b.Loop() {
		d.add(took)
	}
}
