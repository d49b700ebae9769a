package main

import (
	"testing"

	"codeq/internal/peer"
)

func TestParseRate(t *testing.T) {
	const out = "\"test\",\"rps\",\"avg_latency_ms\"\n\"SET\",\"12345.67\",\"0.5\"\n"
	if got, err := parseRate(out); err != nil || got != 12345.67 {
		t.Errorf("rate %v, %v", got, err)
	}
	for _, bad := range []string{"", "\"SET\",\"1\"\n", "\"test\",\"rps\"\n\"SET\",\"x\"\n"} {
		if got, err := parseRate(bad); err == nil {
			t.Errorf("rate %v from %q", got, bad)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{5, 1, 3}, 3}, {[]float64{4, 1, 3, 2}, 2.5}} {
		if got := median(c.values); got != c.want {
			t.Errorf("median of %v: %v, want %v", c.values, got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		redis, codeq float64
		want         string
	}{
		{100, 95, " 0.95 | 0.9 | met |"}, {100, 80, " 0.80 | 0.9 | missed |"}, {100, 0, " – | 0.9 | – |"},
	} {
		got := verdict(map[peer.Kind]float64{peer.Redis: c.redis, peer.Codeq: c.codeq}, target{1, 0.9})
		if got != c.want {
			t.Errorf("%v of %v: %q, want %q", c.codeq, c.redis, got, c.want)
		}
	}
}
