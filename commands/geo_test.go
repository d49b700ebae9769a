package commands

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"codeq/internal/peer"
)

func TestGeoLikeRedis(t *testing.T) {
	sameAsRedis(t, "geo.txt", geoCommands(), zsetCommands(), stringCommands(), keyCommands())
}

// someplace draws a place: all over the map, near a pole, near the edge, or near where most others are. No two are the same,
// since Redis' order of equal distances follows its sort.
func someplace(rng *rand.Rand) (longitude, latitude float64) {
	longitude, latitude = rng.Float64()*360-180, rng.Float64()*170.1-85.05
	switch rng.IntN(5) {
	case 0:
		latitude = math.Copysign(85.05-rng.ExpFloat64()*5, latitude)
	case 1:
		longitude = math.Copysign(180-rng.ExpFloat64(), longitude)
	case 2, 3:
		longitude, latitude = 13+rng.NormFloat64()/2, 52+rng.NormFloat64()/2
	}
	return longitude, max(min(latitude, 85.05), -85.05)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// geoTwins are the handlers and a redis-server with the same members.
type geoTwins struct {
	t     *testing.T
	h     *handlers
	redis *realRedis
}

func newGeoTwins(t *testing.T, rng *rand.Rand, members int) *geoTwins {
	w := &geoTwins{t, newHandlers(t, geoCommands(), zsetCommands()), startRedis(t)}
	for n := range members {
		longitude, latitude := someplace(rng)
		w.same("GEOADD", "g", number(longitude), number(latitude), fmt.Sprint("m", n))
	}
	return w
}

func (w *geoTwins) both(args ...string) (got, want string) {
	words := make([][]byte, len(args))
	for i, arg := range args {
		words[i] = []byte(arg)
	}
	return w.h.do(w.t, 2, words), w.redis.do(w.t, words)
}

func (w *geoTwins) same(args ...string) {
	w.t.Helper()
	if got, want := w.both(args...); got != want {
		w.t.Errorf("%q\n got %.500q\nwant %.500q", args, got, want)
	}
}

// TestGeoSearchesLikeRedis searches circles and boxes of all sizes around all kinds of places. The order in which members
// are found, which COUNT … ANY depends on, has to be the same too.
func TestGeoSearchesLikeRedis(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newGeoTwins(t, rng, 2000)
	for range 3000 {
		longitude, latitude := someplace(rng)
		if rng.IntN(5) == 0 { // on the corners of large cells
			longitude, latitude = math.Round(longitude/45)*45, math.Round(latitude/42.52556439)*42.52556439
		}
		length := func() string { return number(math.Exp(rng.Float64() * 18)) }
		search := []string{"GEOSEARCH", "g", "FROMLONLAT", number(longitude), number(latitude)}
		if rng.IntN(4) == 0 {
			search = []string{"GEOSEARCH", "g", "FROMMEMBER", fmt.Sprint("m", rng.IntN(2000))}
		}
		if rng.IntN(2) == 0 {
			search = append(search, "BYRADIUS", length(), "m")
		} else {
			search = append(search, "BYBOX", length(), length(), "m")
		}
		switch rng.IntN(4) {
		case 0:
			search = append(search, "COUNT", fmt.Sprint(1+rng.IntN(50)), "ANY", []string{"ANY", "DESC"}[rng.IntN(2)])
		case 1:
			search = append(search, "COUNT", fmt.Sprint(1+rng.IntN(50)), "WITHDIST")
		case 2:
			search = append(search, "WITHHASH", "DESC")
		}
		w.same(search...)
	}
}

// TestGeoDistancesLikeRedis compares places and distances, and the distances that STOREDIST stores up to the last digits,
// where the sines of Go and of C differ.
func TestGeoDistancesLikeRedis(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	w := newGeoTwins(t, rng, 500)
	member := func() string { return fmt.Sprint("m", rng.IntN(500)) }
	for range 1000 {
		w.same("GEODIST", "g", member(), member(), []string{"m", "km", "ft", "mi"}[rng.IntN(4)])
		w.same("GEOPOS", "g", member(), member())
		w.same("GEOHASH", "g", member(), member())
	}
	w.same("GEOSEARCHSTORE", "d", "g", "FROMLONLAT", "13", "52", "BYRADIUS", "30000", "km", "STOREDIST")
	got, want := w.both("ZRANGE", "d", "0", "-1", "WITHSCORES")
	a, errA := peer.Parse([]byte(got))
	b, errB := peer.Parse([]byte(want))
	if errA != nil || errB != nil || len(a.Elems) != len(b.Elems) || len(a.Elems) < 2*400 {
		t.Fatalf("%v, %v: %d and %d elements", errA, errB, len(a.Elems), len(b.Elems))
	}
	for i := range a.Elems {
		x, errX := strconv.ParseFloat(a.Elems[i].Str, 64)
		y, errY := strconv.ParseFloat(b.Elems[i].Str, 64)
		if i%2 == 0 && a.Elems[i].Str != b.Elems[i].Str ||
			i%2 == 1 && (errX != nil || errY != nil || math.Abs(x-y) > 1e-12*y) {
			t.Errorf("element %d: %s, want %s", i, a.Elems[i].Str, b.Elems[i].Str)
		}
	}
}

// TestGeoSearchIsBounded proves that a search reads the cells around its shape and not the whole index.
func TestGeoSearchIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const searches = 2000
	total := 0
	for range searches {
		s := shape{center: place{rng.Float64()*340 - 170, rng.Float64()*120 - 60}, unit: 1}
		s.radius = math.Exp(rng.Float64() * 13)
		cells := s.cells()
		// A cell is at most eight times as high as the radius, and of the nine some five are searched.
		inner := cells[0].area()
		height := radians(inner.north-inner.south) * earthRadius
		if total += len(cells); height > max(8*s.radius, 1) {
			t.Fatalf("%+v: searches cells of %g m", s, height)
		}
	}
	if total > 5*searches {
		t.Errorf("%d searches of %d cells", searches, total)
	}
}

// TestCells checks the numbering against one bit at a time, and that neighbours are next to each other.
func TestCells(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		c := cell{row: rng.Uint32N(1 << finestStep), column: rng.Uint32N(1 << finestStep), step: finestStep}
		var want strings.Builder
		for bit := finestStep - 1; bit >= 0; bit-- {
			fmt.Fprintf(&want, "%d%d", c.column>>bit&1, c.row>>bit&1)
		}
		if got := fmt.Sprintf("%052b", c.number()); got != want.String() || cellOf(c.number()) != c {
			t.Fatalf("%+v has number %s, want %s", c, got, want.String())
		}
		if center := c.center(); cellAt(center, maxLatitude, finestStep) != c {
			t.Fatalf("%+v has its center in %+v", c, cellAt(center, maxLatitude, finestStep))
		}
	}
	all := []cell{}
	for east := -1; east <= 1; east++ {
		for north := -1; north <= 1; north++ {
			all = append(all, cell{0, 7, 3}.neighbour(east, north))
		}
	}
	want := []cell{{7, 6, 3}, {0, 6, 3}, {1, 6, 3}, {7, 7, 3}, {0, 7, 3}, {1, 7, 3}, {7, 0, 3}, {0, 0, 3}, {1, 0, 3}}
	if !slices.Equal(all, want) {
		t.Errorf("neighbours %v, want %v", all, want)
	}
}
